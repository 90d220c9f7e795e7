package sa

import "sync"

// calls runs the callbacks of an object one after the other. No goroutine exists while there are none.
type calls struct {
	mu        sync.Mutex
	queue     []func()
	isRunning bool
	isOver    bool
}

// maxCalls bounds the callbacks of an object that wait while one of them runs.
const maxCalls = 256

// post adds a callback. It reports false if too many wait, or after finish.
func (c *calls) post(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver || len(c.queue) >= maxCalls {
		return false
	}
	c.add(f)
	return true
}

// finish drops the callbacks that wait, and calls last when the one that runs has returned.
func (c *calls) finish(last func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOver, c.queue = true, nil
	c.add(last)
}

func (c *calls) add(f func()) {
	c.queue = append(c.queue, f)
	if !c.isRunning {
		c.isRunning = true
		go c.run()
	}
}

func (c *calls) run() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.isRunning = false
			c.mu.Unlock()
			return
		}
		f := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		f()
	}
}
