"""One HTTP server for scheduler and agent: handlers are plain functions of bytes, everything else is here."""
