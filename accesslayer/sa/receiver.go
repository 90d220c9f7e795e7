package sa

import (
	"errors"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// A receiver receives the reports of a port and passes them to its subscriptions.
type receiver struct {
	c             *Client
	port          mads.Port
	agent         mads.Agent
	subscriptions map[*Subscription]struct{} // guarded by Client.mu

	// recent are the last reports, which the administrator sends again if it does not receive our response. A manager
	// that was restarted may use the same transactions again, so a new subscription forgets them.
	mu     sync.Mutex
	recent [64]transaction
	next   int
}

// transaction identifies a report.
type transaction struct {
	lid    ci.LID
	tid    uint64
	notice mad.NoticeRecord
}

// NoticeCounters count reports of the administrator.
type NoticeCounters struct {
	Delivered  uint64 // passed to subscriptions; one that matches two is counted twice
	Repeated   uint64 // received again
	Unmatched  uint64 // no subscription matches
	Dropped    uint64 // too many callbacks of a subscription wait
	Unexpected uint64 // not from the administrator of the port
}

type noticeCount struct{ delivered, repeated, unmatched, dropped, unexpected atomic.Uint64 }

// Notices returns the counters of reports of all ports.
func (c *Client) Notices() NoticeCounters {
	n := &c.notices
	return NoticeCounters{Delivered: n.delivered.Load(), Repeated: n.repeated.Load(), Unmatched: n.unmatched.Load(),
		Dropped: n.dropped.Load(), Unexpected: n.unexpected.Load()}
}

// receive makes the reports of a port go to a subscription. It registers an agent for them if there is none, or if it
// was closed with the port.
func (c *Client) receive(s *Subscription) error {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	r := c.receivers[s.port]
	if r == nil {
		r = &receiver{c: c, port: s.port, subscriptions: map[*Subscription]struct{}{}}
	}
	if r.agent == nil {
		a, err := c.svc.Register(mads.AgentConfig{Name: "SA subscriptions", Port: s.port, Class: mad.ClassSubnetAdmin,
			Version: mad.ClassVersionSubnetAdmin, Methods: []mad.Method{mad.Report}, OnReceive: r.report})
		if err != nil {
			return err
		}
		r.agent = a
	}
	c.receivers[s.port] = r
	r.subscriptions[s] = struct{}{}
	return nil
}

// unreceive ends receive. The agent of a port without subscriptions is closed.
func (c *Client) unreceive(s *Subscription) {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	c.mu.Lock()
	r := c.receivers[s.port]
	var unused mads.Agent
	if r != nil {
		if delete(r.subscriptions, s); len(r.subscriptions) == 0 {
			delete(c.receivers, s.port)
			unused = r.agent
		}
	}
	c.mu.Unlock()
	if unused != nil {
		_ = unused.Close() // it waits for report, which does not wait
	}
}

// portRemoved forgets the agent of a port, which was closed with it.
func (c *Client) portRemoved(port mads.Port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.receivers[port]; r != nil {
		r.agent = nil
	}
}

// report is called with each report.
func (r *receiver) report(m *mads.Received) {
	n := &r.c.notices
	var q mad.SA
	if err := mad.ParseSA(m.MAD, &q); err != nil || !r.isAdministrator(m) {
		n.unexpected.Add(1)
		return
	}
	var notice mad.NoticeRecord
	notice.Parse(q.Data[:])
	q.Method = mad.ReportResp
	if q.Attribute != mad.AttrNotice {
		q.Status = mad.StatusBadMethodAttribute
	}
	b := make([]byte, mad.Size)
	q.Put(b)
	// Without the response, the administrator sends the report again, and then ends the subscription.
	if err := r.agentNow().Send(&mads.Message{To: m.From, MAD: b}); err != nil &&
		!errors.Is(err, accesslayer.ErrClosed) {
		r.c.al.Logger().Debug("sa: a report was not answered", "error", err)
	}
	if q.Attribute != mad.AttrNotice {
		n.unexpected.Add(1)
		return
	}
	if r.isRepeated(transaction{m.From.AV.DLID, q.TID, notice}) {
		n.repeated.Add(1)
		return
	}
	isMatched := false
	for _, s := range r.list() {
		if !s.matches(&notice) {
			continue
		}
		isMatched = true
		own := notice
		if s.calls.post(func() { s.onNotice(&own) }) {
			n.delivered.Add(1)
		} else {
			n.dropped.Add(1)
		}
	}
	if !isMatched {
		n.unmatched.Add(1)
	}
}

// isAdministrator reports whether a datagram comes from QP1 of the port's subnet manager.
func (r *receiver) isAdministrator(m *mads.Received) bool {
	to, err := r.c.administrator(r.port)
	return err == nil && m.From.QPN == 1 && m.From.AV.DLID == to.AV.DLID
}

// agentNow returns the agent.
func (r *receiver) agentNow() mads.Agent {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.agent == nil {
		return closedAgent{}
	}
	return r.agent
}

// closedAgent is the agent of a port that was removed.
type closedAgent struct{ mads.Agent }

func (closedAgent) Send(*mads.Message) error { return accesslayer.ErrClosed }

// list returns the subscriptions.
func (r *receiver) list() (list []*Subscription) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for s := range r.subscriptions {
		list = append(list, s)
	}
	return list
}

// isRepeated reports whether a report was received before, and remembers it.
func (r *receiver) isRepeated(t transaction) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.recent {
		if have == t {
			return true
		}
	}
	r.recent[r.next] = t
	r.next = (r.next + 1) % len(r.recent)
	return false
}

// forgetReports forgets the reports that a port has received.
func (c *Client) forgetReports(port mads.Port) {
	c.mu.Lock()
	r := c.receivers[port]
	c.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.recent = [len(r.recent)]transaction{}
	}
}
