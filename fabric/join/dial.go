package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial joins the fabric behind a Unix socket as the adapter at a port of a node. Port 0 selects the lowest port with a
// link. Errors: no server at the socket; those of Fabric.CAPort, such as an unknown node or a port that has an adapter.
// The caller closes the port, or passes it to the New of an adapter.
func Dial(ctx context.Context, socket, node string, port int) (*Port, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("join: %w (is the fabric running, as with ddk-fabric serve?)", err)
	}
	return Join(ctx, c, node, port)
}

// Join is Dial over a connection that is there already. It closes the connection if it fails.
func Join(ctx context.Context, c net.Conn, node string, port int) (p *Port, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	w, err := greet(c, node, port)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return newPort(c, w), nil
}

// greet sends the hello, and returns the welcome.
func greet(c net.Conn, node string, port int) (w welcome, err error) {
	if _, err := c.Write(appendMessage(nil, typeHello, encode(hello{version, node, port}))); err != nil {
		return w, err
	}
	typ, b, _, err := readMessage(c, nil, maxControl)
	switch {
	case err != nil:
		return w, err
	case typ != typeWelcome:
		return w, fmt.Errorf("%w: type %d, want a welcome", errMessage, typ)
	}
	if err := decode(b, &w); err != nil {
		return w, err
	}
	if w.Error != "" {
		return w, errors.New(w.Error)
	}
	return w, nil
}
