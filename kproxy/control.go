package kproxy

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// control executes an operation of the daemon for a privileged client. Status: InvalidPermission, Unsupported (the
// daemon has no operations), InsufficientResources (the reply is too long), or that of the operation.
func (c *Session) control(r *schema.Control) (*Result, error) {
	const verb = "ual.Client.Control"
	if !c.s.cfg.Privileged(c.peer) {
		return nil, failf(verb, ci.InvalidPermission, "user %d may not control this daemon (be root or the daemon's "+
			"user)",
			c.peer.UID)
	}
	if c.s.cfg.Control == nil {
		return nil, failf(verb, ci.Unsupported, "this daemon has no operations")
	}
	c.log.Info("kproxy: control", "operation", r.Operation)
	text, err := c.s.cfg.Control(c.peer, r.Operation, r.Request)
	if err != nil {
		return nil, err
	}
	if len(text) > schema.MaxControl {
		return nil, failf(verb, ci.InsufficientResources, "the reply has %d bytes, limit %d", len(text),
			schema.MaxControl)
	}
	return &Result{Body: &schema.ControlReply{Text: text}}, nil
}
