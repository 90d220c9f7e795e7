package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/mad"
	"ciddk/rvt"
)

// Connections are set up and torn down, several at a time.
const (
	connecting     = 32 // connections in progress at a time
	connects       = 3000
	connectService = mad.ServiceIDLocal | 0xbe
	connectLimit   = spinLimit
)

// connectCases returns the cases that time connections from request to teardown.
func connectCases() []Case {
	one := func(name, kind, ours string) Case {
		turns := func(kind string) turn { return turn{role: role{Kind: kind}, ops: connects} }
		return Case{Name: name, Op: "connection", Ours: []Entry{{Name: "ours", What: ours}},
			Yards: []Entry{{Name: "yardstick", What: "TCP sockets, two processes: connect, accept, close, 32 in " +
				"progress"}},
			Open: openTwo(Place{}, turns(kind), turns("tcp-connect"))}
	}
	return []Case{
		one("cm/connect", "connect", "connections over UDP between two processes, 32 in progress: REQ, REP, RTU, "+
			"DREQ, DREP"),
		one("cm/connect-qp", "connect-qp", "the same with a QP on each side, which is created, taken to RTS, and "+
			"destroyed"),
	}
}

// connectHalf is an access layer with a connection manager over an HCA of its own. Its host's HCA is already open.
type connectHalf struct {
	first   bool
	withQPs bool
	gid     ci.GID
	pd      *accesslayer.PD
	cq      *accesslayer.CQ
	cm      cm.Service
	mgr     mads.Port
	l       cm.Listener
	to      cm.Path
	undo    []func() error
}

func newConnectHalf(withQPs bool) func(*host, role) (half, error) {
	return func(h *host, r role) (_ half, err error) {
		c := &connectHalf{first: r.First, withQPs: withQPs}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.close())
			}
		}()
		h.more++
		a := h.addr.As4()
		a[3] += 2 * h.more // resolve the neighbors of both processes
		port, err := udpPort(netip.AddrFrom4(a))()
		if err != nil {
			return nil, err
		}
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
		if err != nil {
			return nil, err
		}
		c.undo = append(c.undo, hca.Close)
		al := accesslayer.New(accesslayer.Config{PollInterval: -1,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		c.undo = append(c.undo, al.Close)
		if err := al.Register(hca); err != nil {
			return nil, err
		}
		client, err := al.Open(accesslayer.ClientConfig{Name: "bench"})
		if err != nil {
			return nil, err
		}
		c.undo = append(c.undo, client.Close)
		ca, err := client.OpenCA(hca.Info().GUID, nil)
		if err != nil {
			return nil, err
		}
		if c.pd, err = ca.NewPD(ci.PDNormal); err != nil {
			return nil, err
		}
		if c.cq, err = c.pd.NewCQ(ci.CQCreate{Size: 4096}, accesslayer.CQHandler{}); err != nil {
			return nil, err
		}
		svc, err := mads.New(al, mads.Config{})
		if err != nil {
			return nil, err
		}
		c.undo = append(c.undo, svc.Close)
		m, err := cm.New(al, svc, cm.Config{})
		if err != nil {
			return nil, err
		}
		c.undo = append(c.undo, m.Close)
		c.cm = m
		c.mgr = mads.Port{CA: hca.Info().GUID, Num: 1}
		c.gid = ca.Adapter().Attr().Ports[0].GIDs[0].GID
		if !r.First {
			if c.l, err = m.Listen(cm.ListenConfig{Service: connectService, Backlog: 4 * connecting}); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
}

func (c *connectHalf) address() address { return address{Link: ci.LinkEthernet, GID: c.gid} }

func (c *connectHalf) join(to address) error {
	c.to = cm.Path{Port: c.mgr, AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: to.GID, HopLimit: 64}}}
	return nil
}

func (c *connectHalf) end() error { return nil }

func (c *connectHalf) close() error {
	var errs []error
	for i := range c.undo {
		errs = append(errs, c.undo[len(c.undo)-1-i]())
	}
	c.undo = nil
	return errors.Join(errs...)
}

func (c *connectHalf) run(ops int, w *watch) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	if c.first {
		return inParallel(ops, w, func(i int) error { return c.ask(ctx, i) })
	}
	return inParallel(ops, w, func(i int) error { return c.answer(ctx, i) })
}

// inParallel performs ops operations, connecting of them at a time, and returns the first error. With a watch, it
// performs one at a time.
func inParallel(ops int, w *watch, do func(i int) error) error {
	if w != nil {
		for i := range ops {
			w.start()
			if err := do(i); err != nil {
				return fmt.Errorf("connection %d of %d: %w", i, ops, err)
			}
			w.stop(1)
		}
		return nil
	}
	var wg sync.WaitGroup
	turns := make(chan int)
	errs := make(chan error, connecting)
	for range connecting {
		wg.Go(func() {
			for i := range turns {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	err := func() error {
		for i := range ops {
			select {
			case turns <- i:
			case err := <-errs:
				return fmt.Errorf("connection %d of %d: %w", i, ops, err)
			}
		}
		return nil
	}()
	close(turns)
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// qp returns a new QP, or only a QP number.
func (c *connectHalf) qp(i int) (*accesslayer.QP, cm.QP, error) {
	if !c.withQPs {
		return nil, cm.QP{Num: ci.QPN(2 + i), Type: ci.RC}, nil
	}
	q, err := c.pd.NewQP(ci.QPCreate{Type: ci.RC, SendCQ: c.cq, RecvCQ: c.cq,
		QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8,
			SendSGE: 1, RecvSGE: 1}}, nil)
	if err != nil {
		return nil, cm.QP{}, err
	}
	return q, cm.QP{Num: q.Num(), Type: ci.RC, StartPSN: ci.PSN(i & 0xffffff)}, nil
}

func move(q *accesslayer.QP, c cm.Conn, to ...ci.QPState) error {
	if q == nil {
		return nil
	}
	for _, s := range to {
		if err := cm.Modify(q, c, s, 0); err != nil {
			return err
		}
	}
	return nil
}

func drop(q *accesslayer.QP) error {
	if q == nil {
		return nil
	}
	return q.Destroy()
}

func (c *connectHalf) ask(ctx context.Context, i int) error {
	q, info, err := c.qp(i)
	if err != nil {
		return err
	}
	conn, err := c.cm.Connect(ctx, cm.ConnectConfig{Service: connectService, QP: info, Primary: c.to,
		RetryCount: 7, RNRRetry: 7})
	if err == nil {
		err = move(q, conn, ci.QPInit, ci.QPRTR, ci.QPRTS)
	}
	if err == nil {
		err = conn.Confirm(nil)
	}
	if err == nil {
		_, err = conn.Disconnect(ctx, nil)
	}
	return errors.Join(err, drop(q))
}

func (c *connectHalf) answer(ctx context.Context, i int) error {
	conn, err := c.l.Accept(ctx)
	if err != nil {
		return err
	}
	q, info, err := c.qp(i)
	if err == nil {
		err = move(q, conn, ci.QPInit, ci.QPRTR)
	}
	if err == nil {
		err = conn.Accept(ctx, cm.AcceptConfig{QP: info, RNRRetry: 7})
	}
	if err == nil {
		err = move(q, conn, ci.QPRTS)
	}
	for err == nil {
		var e cm.Event
		if e, err = conn.Next(ctx); err == nil && e.Type == cm.EventDisconnect {
			err = conn.AnswerDisconnect(nil)
			break
		}
	}
	return errors.Join(err, drop(q))
}

// tcpConnectHalf is the yardstick: TCP connections.
type tcpConnectHalf struct {
	first bool
	l     net.Listener
	at    address
	to    netip.AddrPort
}

func newTCPConnectHalf(h *host, r role) (half, error) {
	t := &tcpConnectHalf{first: r.First}
	l, err := net.Listen("tcp", netip.AddrPortFrom(h.addr, 0).String())
	if err != nil {
		return nil, err
	}
	t.l = l
	t.at.Sock = l.Addr().(*net.TCPAddr).AddrPort()
	return t, nil
}

func (t *tcpConnectHalf) address() address      { return t.at }
func (t *tcpConnectHalf) join(to address) error { t.to = to.Sock; return nil }
func (t *tcpConnectHalf) end() error            { return nil }
func (t *tcpConnectHalf) close() error          { return t.l.Close() }

// run waits for both ends to see the close, as the connection manager does.
func (t *tcpConnectHalf) run(ops int, w *watch) error {
	until := time.Now().Add(connectLimit)
	d := net.Dialer{Deadline: until}
	return inParallel(ops, w, func(int) error {
		var c net.Conn
		var err error
		if t.first {
			c, err = d.Dial("tcp", t.to.String())
		} else {
			c, err = t.l.Accept()
		}
		if err != nil {
			return err
		}
		tcp := c.(*net.TCPConn)
		err = tcp.SetDeadline(until)
		if t.first {
			err = errors.Join(err, tcp.CloseWrite())
		}
		if _, e := tcp.Read(make([]byte, 1)); !errors.Is(e, io.EOF) {
			err = errors.Join(err, fmt.Errorf("read: %w", e))
		}
		return errors.Join(err, tcp.Close())
	})
}
