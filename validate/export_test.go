package validate

import (
	"context"
	"io"
	"os"
)

// ServeWorkerThrough is ServeWorker with a writer between the worker and its results.
func ServeWorkerThrough(ctx context.Context, c *Catalog, d Driver, s Setting, through func(io.Writer) io.Writer) error {
	ch, err := openWorkerChannel()
	if err != nil {
		return err
	}
	ch.out = through(ch.out)
	return serveWorker(ctx, c, d, s, ch, os.Exit)
}

// OpenWorkerChannel opens a worker's channel for a process that does not act as a worker.
func OpenWorkerChannel() (nonce string, out io.Writer, err error) {
	ch, err := openWorkerChannel()
	if err != nil {
		return "", nil, err
	}
	return ch.nonce, ch.out, nil
}

// WriteEvent writes an event as a worker does.
func WriteEvent(w io.Writer, nonce string, e Event) error {
	return (&eventWriter{nonce: nonce, w: w}).write(e)
}
