package sa

import (
	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
)

// PortEvent passes an event of a port to the client's watchers, as the access layer does.
func (c *Client) PortEvent(port mads.Port, t accesslayer.PortEventType) {
	c.mu.Lock()
	var list []watcher
	for w := range c.watchers {
		list = append(list, w)
	}
	c.mu.Unlock()
	if t == accesslayer.PortRemove {
		c.portRemoved(port)
	}
	c.notify(list, port, accesslayer.PortEvent{Type: t, Port: port.Num})
}

// Watchers returns the number of objects that receive port events.
func (c *Client) Watchers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watchers)
}

// Shares returns the number of records that registrations share.
func (c *Client) Shares() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shares)
}

// PathBytes is what a cached path counts as.
const PathBytes = pathBytes
