package vfiouser

import (
	"log/slog"
	"time"
)

// Config configures Serve.
type Config struct {
	Logger *slog.Logger // nil: slog.Default
}

// timeout is the longest wait for the other side to read a message, and for a reply.
const timeout = 10 * time.Second
