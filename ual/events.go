package ual

import (
	"os"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// eventQueue reads the events of a queue of the daemon on a goroutine.
type eventQueue struct {
	c      *Client
	handle schema.Handle
	file   *os.File
	done   chan struct{} // closed when the goroutine has ended
}

// newEventQueue creates a queue. end is called on its goroutine when no more events will come.
func (c *Client) newEventQueue(end func()) (*eventQueue, error) {
	var r schema.Created
	files, err := c.doFiles(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, nil, &r)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		native.CloseFiles(files)
		_ = c.destroy(r.Handle) // the daemon destroys it at the latest with the client
		return nil, &ci.Error{Verb: schema.CmdCreateEventQueue.Verb(), Status: ci.InsufficientResources,
			Err: native.ErrDescriptors}
	}
	q := &eventQueue{c: c, handle: r.Handle, file: files[0], done: make(chan struct{})}
	c.addQueue(q)
	c.wait.Go(func() {
		defer close(q.done)
		q.read()
		c.removeQueue(q)
		end()
	})
	return q, nil
}

// addQueue has a queue closed when the connection is lost.
func (c *Client) addQueue(q *eventQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		q.file.Close()
		return
	}
	c.queues[q] = struct{}{}
}

func (c *Client) removeQueue(q *eventQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, q)
}

// read handles events until the daemon or close closes the descriptor.
func (q *eventQueue) read() {
	defer q.file.Close()
	var b [schema.EventSize + 1]byte
	for {
		n, err := q.file.Read(b[:])
		if err != nil {
			return
		}
		e, err := schema.ParseEvent(b[:n])
		if err != nil {
			return
		}
		if r := q.c.tokens.find(e.Token); r != nil {
			r.post(e, &q.c.wait)
		}
	}
}

// close destroys the queue and waits for its goroutine.
func (q *eventQueue) close() {
	_ = q.c.destroy(q.handle) // the descriptor is closed in any case
	q.file.Close()
	<-q.done
}
