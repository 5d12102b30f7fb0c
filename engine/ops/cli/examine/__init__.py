"""What `adt-engine doctor` looks at: the machine, the files, the certificates, the destinations."""
