"""What proves people, for the pages and the service: passwords and the throttle of log-ins."""
