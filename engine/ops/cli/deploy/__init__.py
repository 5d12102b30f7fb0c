"""Files for running adt-engine as a service of a machine: printed, for administrators to read and keep."""
