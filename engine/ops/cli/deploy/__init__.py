"""Files for running adt-engine as a service of a machine: printed, to be read and kept by whoever runs it."""
