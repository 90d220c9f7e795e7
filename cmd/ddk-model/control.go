package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/private"
)

// controlSuffix is what the path of the socket for faults has behind that of the card.
const controlSuffix = ".faults"

const (
	maxRequest  = 4096
	requestTime = 5 * time.Second
)

// A response is the answer to a fault, as one JSON value.
type response struct {
	Error string `json:"error,omitempty"`
}

// A control is the socket for the faults of a card. The nil control is none.
type control struct {
	l    net.Listener
	done sync.WaitGroup
}

// listenControl opens the socket for the faults of a card. Only its owner can connect.
func listenControl(card string, m *model.Model) (*control, error) {
	l, err := private.Replace("unix", card+controlSuffix)
	if err != nil {
		return nil, fmt.Errorf("--faults: %w", err)
	}
	c := &control{l: l}
	c.done.Go(func() { c.serve(m) })
	return c, nil
}

// close closes the socket, and waits until the requests have ended.
func (c *control) close() error {
	if c == nil {
		return nil
	}
	err := c.l.Close()
	c.done.Wait()
	return err
}

// serve injects faults until the socket is closed.
func (c *control) serve(m *model.Model) {
	for {
		conn, err := c.l.Accept()
		if err != nil {
			return
		}
		c.done.Go(func() {
			defer func() { _ = conn.Close() }()
			if conn.SetDeadline(time.Now().Add(requestTime)) != nil {
				return
			}
			var f fault
			var r response
			err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&f)
			if err == nil {
				err = f.apply(m)
			}
			if err != nil {
				r.Error = err.Error()
			}
			_ = json.NewEncoder(conn).Encode(r) // a client that left reads no answer
		})
	}
}

// inject sends a fault to the server of the card.
func (t *target) inject(p *program, f fault) error {
	ctx, cancel := context.WithTimeout(p.ctx, requestTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", t.Card+controlSuffix)
	if err != nil {
		return fmt.Errorf("%s takes no faults (start ddk-model serve with --faults): %w", t.Card, err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(f); err != nil {
		return err
	}
	var r response
	if err := json.NewDecoder(c).Decode(&r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
