"""What proves people and programs: passwords, the throttle of log-ins, the client side of OAuth."""
