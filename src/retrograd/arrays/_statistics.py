"""Statistics along axes."""
