"""Former versions of resources: vread, history of one and of a type, and how long they are kept."""
