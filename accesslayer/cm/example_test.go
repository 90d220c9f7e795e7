package cm_test

import (
	"context"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// end is one end of the example: an HCA with its managers, and a QP.
type end struct {
	hca *reference.HCA
	al  *accesslayer.AL
	svc *mads.Manager
	m   *cm.Manager
	cq  *accesslayer.CQ
	qp  *accesslayer.QP
	mr  *accesslayer.MR
	buf []byte
}

func newEnd(link *direct.Link) (*end, error) {
	e := &end{al: accesslayer.New(accesslayer.Config{}), buf: make([]byte, 64)}
	var err error
	if e.hca,
		err = reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(link,
		direct.Config{}))}}); err != nil {
		return nil, err
	}
	if err = e.al.Register(e.hca); err != nil {
		return nil, err
	}
	if e.svc, err = mads.New(e.al, mads.Config{}); err != nil {
		return nil, err
	}
	if e.m, err = cm.New(e.al, e.svc, cm.Config{}); err != nil {
		return nil, err
	}
	client, err := e.al.Open(accesslayer.ClientConfig{Name: "example"})
	if err != nil {
		return nil, err
	}
	ca, err := client.OpenCA(e.hca.Info().GUID, nil)
	if err != nil {
		return nil, err
	}
	pd, err := ca.NewPD(ci.PDNormal)
	if err != nil {
		return nil, err
	}
	if e.cq, err = pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{}); err != nil {
		return nil, err
	}
	e.qp, err = pd.NewQP(ci.QPCreate{Type: ci.RC, SendCQ: e.cq, RecvCQ: e.cq, QPCaps: ci.QPCaps{SendDepth: 4,
		RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}, nil)
	if err != nil {
		return nil, err
	}
	e.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(e.buf), Access: ci.LocalWrite})
	return e, err
}

func (e *end) close() {
	_ = e.m.Close()
	_ = e.svc.Close()
	_ = e.al.Close()
	_ = e.hca.Close()
}

// port returns the end's port. addr returns its address.
func (e *end) port() mads.Port { return mads.Port{CA: e.hca.Info().GUID, Num: 1} }

func (e *end) addr() (ci.AVAttr, error) {
	a, err := e.al.Adapter(e.hca.Info().GUID)
	if err != nil {
		return ci.AVAttr{}, err
	}
	p := a.Attr().Ports[0]
	return ci.AVAttr{DLID: p.LID, GRH: ci.GRH{DGID: p.GIDs[0].GID}}, nil
}

// serve accepts a connection and waits for its end.
func (e *end) serve(ctx context.Context, l cm.Listener) error {
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("request: %s\n", c.Request().Private()[:5])
	if err = cm.Modify(e.qp, c, ci.QPInit, 0); err != nil {
		return err
	}
	if _, err = e.qp.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{e.mr.Region().SGE(0, 64)}}}); err != nil {
		return err
	}
	if err = cm.Modify(e.qp, c, ci.QPRTR, 0); err != nil {
		return err
	}
	if err = c.Accept(ctx, cm.AcceptConfig{QP: cm.QP{Num: e.qp.Num()}, Private: []byte("welcome")}); err != nil {
		return err
	}
	if err = cm.Modify(e.qp, c, ci.QPRTS, 0); err != nil {
		return err
	}
	wc := make([]ci.WC, 1)
	if _, err = e.cq.Wait(ctx, wc); err != nil {
		return err
	}
	fmt.Printf("received: %s\n", e.buf[:wc[0].Length])
	for {
		ev, err := c.Next(ctx)
		if err != nil {
			return err
		}
		switch ev.Type {
		case cm.EventDisconnect:
			fmt.Println("the client has disconnected")
			if err := c.AnswerDisconnect(nil); err != nil {
				return err
			}
		case cm.EventDisconnected:
			e.qp.TimeWait(c.TimeWait())
			return e.qp.Destroy()
		}
	}
}

// connect connects, sends a message and disconnects.
func (e *end) connect(ctx context.Context, to *end) error {
	av, err := to.addr()
	if err != nil {
		return err
	}
	c, err := e.m.Connect(ctx, cm.ConnectConfig{Service: 0x1234, QP: cm.QP{Num: e.qp.Num(), StartPSN: 77},
		Primary: cm.Path{Port: e.port(), AV: av}, RetryCount: 7, RNRRetry: 7, Private: []byte("hello")})
	if err != nil {
		return err
	}
	fmt.Printf("answered: %s\n", c.Reply().Private()[:7])
	for _, state := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
		if err = cm.Modify(e.qp, c, state, 0); err != nil {
			return err
		}
	}
	if err = c.Confirm(nil); err != nil {
		return err
	}
	n := copy(e.buf, "one message")
	if _, err = e.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{e.mr.Region().SGE(0, uint32(n))}}}); err != nil {
		return err
	}
	if _, err = e.cq.Wait(ctx, make([]ci.WC, 1)); err != nil {
		return err
	}
	_, err = c.Disconnect(ctx, nil)
	e.qp.TimeWait(c.TimeWait())
	return err
}

// The example has both ends of a connection in one process. Over a network, each end has its own process. Only the
// ports differ.
func Example() {
	link := direct.NewLink()
	server, err := newEnd(link)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.close()
	client, err := newEnd(link)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	l, err := server.m.Listen(cm.ListenConfig{Service: 0x1234})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- server.serve(ctx, l) }()
	if err := client.connect(ctx, server); err != nil {
		fmt.Println(err)
	}
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	// Output:
	// request: hello
	// answered: welcome
	// received: one message
	// the client has disconnected
}
