"""The commands of the service, `adt-engine interchange`."""
