package cm

// A connList is a doubly linked list of connections, oldest first. A connection is in at most one list. Manager.mu
// guards it.
type connList struct {
	first, last *conn
	count       int
}

func (l *connList) add(c *conn) {
	c.prev, c.next, c.inList = l.last, nil, true
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.count++
}

// remove removes c from the list if it is in the list.
func (l *connList) remove(c *conn) {
	if !c.inList {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.prev, c.next, c.inList = nil, nil, false
	l.count--
}

// replace puts n in the place of c, which is in the list.
func (l *connList) replace(c, n *conn) {
	n.prev, n.next, n.inList = c.prev, c.next, true
	if n.prev != nil {
		n.prev.next = n
	} else {
		l.first = n
	}
	if n.next != nil {
		n.next.prev = n
	} else {
		l.last = n
	}
	c.prev, c.next, c.inList = nil, nil, false
}
