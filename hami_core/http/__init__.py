"""The HTTP server of scheduler and agent. Handlers are plain functions from request to response."""
