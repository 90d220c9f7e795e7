package accesslayer_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// newDriver returns an HCA, in place of a driver's.
func newDriver() ci.HCA { return newFake(1) }

func Example() {
	al := accesslayer.New(accesslayer.Config{})
	if err := al.Register(newDriver()); err != nil { // a driver calls it when its HCA is ready
		fmt.Println(err)
		return
	}
	client, _ := al.Open(accesslayer.ClientConfig{Name: "example"})
	ca, _ := client.OpenCA(al.Adapters()[0].GUID(), nil)
	pd, _ := ca.NewPD(ci.PDNormal)
	cq, _ := pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{})
	qp, _ := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, nil)

	// The HCA is removed. The client has nothing to clean up, and its later calls return ErrClosed.
	fmt.Println("deregister:", al.Deregister(ca.Adapter().GUID()))
	_, err := qp.Query()
	fmt.Println(errors.Is(err, accesslayer.ErrClosed), errors.Is(err, ci.InvalidQPHandle))
	fmt.Println("close:", al.Close())
	// Output:
	// deregister: <nil>
	// true true
	// close: <nil>
}

func ExampleClient_RegisterPnP() {
	al := accesslayer.New(accesslayer.Config{})
	defer al.Close()
	client, _ := al.Open(accesslayer.ClientConfig{Name: "example"})
	_, err := client.RegisterPnP(accesslayer.PnPConfig{
		Add: func(a *accesslayer.Adapter) (any, error) {
			fmt.Printf("HCA %016x added\n", uint64(a.GUID()))
			return client.OpenCA(a.GUID(), nil)
		},
		Remove: func(a *accesslayer.Adapter, data any) {
			fmt.Printf("HCA %016x removed: %v\n", uint64(a.GUID()), data.(*accesslayer.CA).Destroy())
		},
		Port: func(_ *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
			fmt.Printf("port %d: %v\n", e.Port, e.Type)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = al.Register(newDriver())
	_ = al.WaitPnP(context.Background()) // Register does not wait for clients
	_ = al.Deregister(al.Adapters()[0].GUID())
	// Output:
	// HCA 0002c90300001000 added
	// port 1: add
	// port 1: down
	// port 1: remove
	// HCA 0002c90300001000 removed: <nil>
}

func ExampleQP_DestroyAsync() {
	al := accesslayer.New(accesslayer.Config{})
	defer al.Close()
	_ = al.Register(newDriver())
	client, _ := al.Open(accesslayer.ClientConfig{})
	ca, _ := client.OpenCA(al.Adapters()[0].GUID(), nil)
	pd, _ := ca.NewPD(ci.PDNormal)
	cq, _ := pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{})
	destroyed := make(chan error)
	qp, _ := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, func(qp *accesslayer.QP, e ci.Event) {
		// This is a callback of the object itself, so the driver's destroy runs after it.
		if e.Type == ci.EventQPFatal {
			_ = qp.DestroyAsync(func(err error) { destroyed <- err })
		}
	})
	drv, _ := ci.As[*fakeQP](qp)
	drv.fire(ci.EventQPFatal, 0)
	fmt.Println("destroyed:", <-destroyed)
	// Output: destroyed: <nil>
}

func ExampleCQ_NewPump() {
	al := accesslayer.New(accesslayer.Config{})
	defer al.Close()
	_ = al.Register(newDriver())
	client, _ := al.Open(accesslayer.ClientConfig{})
	ca, _ := client.OpenCA(al.Adapters()[0].GUID(), nil)
	pd, _ := ca.NewPD(ci.PDNormal)
	cq, _ := pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{})
	ids := make(chan uint64)
	pump, _ := cq.NewPump(accesslayer.PumpConfig{Mode: accesslayer.PollHybrid, Handle: func(wc []ci.WC) {
		for _, c := range wc {
			ids <- c.ID
		}
	}})
	drv, _ := ci.As[*fakeCQ](cq)
	drv.complete(ci.WC{ID: 1}, ci.WC{ID: 2})
	fmt.Println(<-ids, <-ids)
	fmt.Println(pump.Destroy())
	// Output:
	// 1 2
	// <nil>
}

// loopback is a queue pair of the reference HCA, connected to itself.
func loopback(al *accesslayer.AL) (*accesslayer.PD, *accesslayer.CQ, *accesslayer.QP, io.Closer) {
	hca, _ := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
		direct.Config{}))}})
	_ = al.Register(hca)
	client, _ := al.Open(accesslayer.ClientConfig{})
	ca, _ := client.OpenCA(hca.Info().GUID, nil)
	pd, _ := ca.NewPD(ci.PDNormal)
	cq, _ := pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{})
	qp, _ := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 16, SendSGE: 1}}, nil)
	port, _ := ca.Adapter().Port(1)
	self := ci.AVAttr{Port: 1, DLID: port.LID}
	_ = qp.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC))
	_ = qp.Modify(ci.ToRTR{AV: self, MTU: ci.MTU1024, DestNum: qp.Num(), RespRes: 1, MinRNRTimer: 1}.For(ci.RC))
	_ = qp.Modify(ci.ToRTS{AckTimeout: 14, InitDepth: 1, RetryCount: 7, RNRRetry: 7}.For(ci.RC))
	return pd, cq, qp, hca
}

func ExamplePD_NewFastRegPool() {
	al := accesslayer.New(accesslayer.Config{})
	pd, cq, qp, hca := loopback(al)
	defer hca.Close()
	defer al.Close()
	pool, _ := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 8,
		MaxPages: 257}) // 1 MiB each, at any offset in a page

	from, to := []byte("moved by RDMA"), make([]byte, 13)
	src, _ := pool.Map(ci.Bytes(from), 0)
	dst, _ := pool.Map(ci.Bytes(to), ci.LocalWrite|ci.RemoteWrite)
	write := ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{src.SGE(0, 13)}, Remote: dst.Remote(0)} // usually of a peer
	_, err := qp.PostSend([]ci.SendWR{src.Register(), dst.Register(), write, src.Invalidate(), dst.Invalidate()})
	fmt.Println(err)

	wc := make([]ci.WC, 1)
	for _, m := range []*accesslayer.FastRegMapping{src, dst} {
		_, _ = cq.Wait(context.Background(), wc) // completion of the invalidation: the key is invalid
		fmt.Println(wc[0].Status, m.Unmap())
	}
	fmt.Printf("%s\n", to)
	// Output:
	// <nil>
	// success <nil>
	// success <nil>
	// moved by RDMA
}

func ExamplePD_NewFMRPool() {
	al := accesslayer.New(accesslayer.Config{})
	defer al.Close()
	_ = al.Register(newDriver())
	client, _ := al.Open(accesslayer.ClientConfig{})
	ca, _ := client.OpenCA(al.Adapters()[0].GUID(), nil)
	pd, _ := ca.NewPD(ci.PDNormal)
	pool, _ := pd.NewFMRPool(accesslayer.FMRPoolConfig{
		FMRCreate: ci.FMRCreate{MaxPages: 16, PageShift: 12, Access: ci.LocalWrite | ci.RemoteWrite},
		Size:      8,
		Cache:     true,
	})
	m, _ := pool.Map([]uint64{0x1000, 0x2000}, 0)
	fmt.Println(m.Length)
	_ = m.Unmap()             // peers can use the key until the flush
	fmt.Println(pool.Flush()) // all keys are invalid now
	// Output:
	// 8192
	// <nil>
}
