"""The commands of the service, `adt-engine interchange`: run it, and look after what it keeps."""
