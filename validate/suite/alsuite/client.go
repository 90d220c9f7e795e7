package alsuite

import (
	"errors"
	"fmt"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The ends of clients and of the access layer, and adapters beside each other.
var clients = area()

var _ = clients.Add("al.client.close", "a client is closed while another one uses the adapter", clientClose,
	req.SAS2_2_07)

func clientClose(t *validate.T) {
	s := registered(t)
	other := s.newClient("another")
	keep := s.open(other, 0)
	kept := keep.PD()
	ca := s.open(s.client, 0)
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	ca.QP(pd, cq, cq)
	ca.Buf(pd, 64, kit.AllAccess)
	objects := s.client.Objects()
	for kind, n := range map[string]int{"CA": 1, "PD": 1, "CQ": 1, "QP": 1, "MR": 1} {
		kit.Equal(t, "Client.Objects, "+kind, objects[kind], n)
	}
	kit.OK(t, s.client.Close(), "Client.Close")
	kit.OK(t, s.client.Close(), "second Client.Close")
	left := 0
	for _, n := range s.client.Objects() {
		left += n
	}
	kit.Equal(t, "objects of a closed client", left, 0)
	kit.Equal(t, "destroys of QPs that reached the driver", s.rec[0].count("QP.Destroy"), 1)
	_, err := cq.Query()
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "CQ.Query after Client.Close", "ErrClosed", "%v", err)
	_, err = pd.CreateCQ(ci.CQCreate{Size: 1})
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "PD.CreateCQ after Client.Close", "ErrClosed", "%v", err)
	_, err = s.client.OpenCA(s.guid(0), nil)
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "Client.OpenCA after Client.Close", "ErrClosed", "%v", err)
	_, err = s.client.RegisterPnP(accesslayer.PnPConfig{Remove: func(*accesslayer.Adapter, any) {}})
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "Client.RegisterPnP after Client.Close", "ErrClosed", "%v", err)
	err = s.client.CloseAsync(func(error) {})
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "Client.CloseAsync after Client.Close", "ErrClosed", "%v", err)
	keep.CQ(kept, 4) // the other client is not affected
	s.rec[0].clean(t)
}

var _ = clients.Add("al.client.async", "a client closes itself in a callback", clientCloseAsync, req.SAS2_1_29,
	req.SAS2_1_31)

func clientCloseAsync(t *validate.T) {
	s := registered(t)
	p := s.pair()
	done := make(chan error, 4)
	var calls atomic.Int32
	c := p.A.QP.Create()
	c.OnEvent = nil
	qp, err := typed[*accesslayer.PD](t, p.A.PD, "PD").NewQP(c, func(*accesslayer.QP, ci.Event) {
		inCallback(func() {
			if calls.Add(1) > 1 {
				return
			}
			if err := s.client.CloseAsync(func(err error) { done <- err }); err != nil {
				done <- err
			}
		})
	})
	kit.OK(t, err, "PD.NewQP")
	p.A.QP.QP = kit.Own[ci.QP](t, qp, "QP")
	p.B.QP.To(ci.QPReset)
	kit.Connect(p.A.QP, p.B.QP)
	drain(t, qp)
	kit.OK(t, expect(t, done, "callback of a CloseAsync called in an event callback"),
		"Client.CloseAsync in an event callback")
	none(t, done, "callbacks of Client.CloseAsync")
	s.rec[0].clean(t)
	s.rec[0].empty(t)
}

var _ = clients.Add("al.client.sole", "a role that one client has at a time", clientSole, req.SAS2_2_08)

func clientSole(t *validate.T) {
	s := registered(t)
	first, err := s.al.Open(accesslayer.ClientConfig{Name: "first", Sole: "QP1"})
	kit.OK(t, err, "AL.Open with a role")
	_, err = s.al.Open(accesslayer.ClientConfig{Name: "second", Sole: "QP1"})
	kit.WantExactly(t, err, "AL.Open with a role that is taken", ci.ResourceBusy)
	other, err := s.al.Open(accesslayer.ClientConfig{Name: "third", Sole: "QP0"})
	kit.OK(t, err, "AL.Open with another role")
	kit.OK(t, other.Close(), "Client.Close")
	kit.OK(t, first.Close(), "Client.Close")
	again, err := s.al.Open(accesslayer.ClientConfig{Name: "fourth", Sole: "QP1"})
	kit.OK(t, err, "AL.Open with a role that is free again")
	kit.OK(t, again.Close(), "Client.Close")
}

var _ = clients.Add("al.close", "the access layer is closed with objects of two clients", closeAll, req.SAS2_2_06,
	req.SAS2_2_05)

func closeAll(t *validate.T) {
	s := registered(t)
	removed := make(chan ci.GUID, 8)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Remove: func(a *accesslayer.Adapter, _ any) { removed <- a.GUID() }})
	kit.OK(t, err, "Client.RegisterPnP")
	s.pair()
	other := s.open(s.newClient("another"), 0)
	other.CQ(other.PD(), 4)
	kit.OK(t, s.al.Close(), "AL.Close")
	for i := len(s.hcas) - 1; i >= 0; i-- { // the newest first
		kit.Equal(t, "removed adapter", expect(t, removed, "remove callback of AL.Close"), s.guid(i))
		s.rec[i].shut(t)
	}
	none(t, removed, "remove callbacks of AL.Close")
	kit.OK(t, s.al.Close(), "second AL.Close")
	kit.Equal(t, "adapters of a closed access layer", len(s.al.Adapters()), 0)
	err = s.al.Register(s.hcas[0])
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "Registrar.Register after AL.Close", "ErrClosed", "%v", err)
	kit.Equal(t, "status of Registrar.Register after AL.Close", ci.StatusOf(err), ci.InvalidALHandle)
	_, err = s.al.Open(accesslayer.ClientConfig{})
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "AL.Open after AL.Close", "ErrClosed", "%v", err)
	reopened(t, t.HCA())
}

var _ = clients.Add("al.destroy.late", "verbs and destroys of an object whose destruction has begun", destroyLate,
	req.SAS2_1_31, req.SAS2_2_07)

func destroyLate(t *validate.T) {
	s := newStage(t)
	release := make(chan struct{})
	var isHeld atomic.Bool
	s.rec[0].refuse = func(kind string) error {
		if kind == "CQ" && isHeld.Swap(false) {
			<-release // the driver's destroy takes long
		}
		return nil
	}
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	cq, err := pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
	kit.OK(t, err, "PD.NewCQ")
	isHeld.Store(true)
	done := make(chan string, 8)
	kit.OK(t, pd.DestroyAsync(func(err error) { done <- fmt.Sprint("PD ", err) }), "PD.DestroyAsync")
	for where, f := range map[string]func() error{
		"CQ.Query of a child": func() error { _, err := cq.Query(); return err },
		"CQ.Resize":           func() error { _, err := cq.Resize(ci.CQResize{Size: 8}); return err },
		"CQ.DestroyAsync":     func() error { return cq.DestroyAsync(func(error) { done <- "CQ" }) },
		"PD.DestroyAsync":     func() error { return pd.DestroyAsync(func(error) { done <- "second PD" }) },
		"PD.NewCQ": func() error {
			_, err := pd.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{})
			return err
		},
		"CQ.NewPump": func() error {
			_, err := cq.NewPump(accesslayer.PumpConfig{Handle: func([]ci.WC) {}})
			return err
		},
	} {
		err := f()
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), where+" during the destruction", "ErrClosed", "%v", err)
	}
	none(t, done, "callback before the driver's destroy has returned")
	close(release)
	kit.Equal(t, "callback of DestroyAsync", expect(t, done, "callback of DestroyAsync"), "PD <nil>")
	none(t, done, "callbacks of DestroyAsync")
	err = cq.Destroy()
	kit.True(t, ci.StatusOf(err) == ci.InvalidCQHandle && errors.Is(err, accesslayer.ErrClosed),
		"CQ.Destroy of a destroyed CQ", "invalid CQ handle with ErrClosed", "%v", err)
	kit.Equal(t, "destroys of the CQ that reached the driver", s.rec[0].count("CQ.Destroy"), 1)
	s.rec[0].clean(t)
	s.rec[0].empty(t)
}

var _ = clients.Needing(validate.Needs{HCAs: 2}).Add("al.adapters", "two adapters beside each other", twoAdapters,
	req.SAS0_02, req.SAS2_3_02)

func twoAdapters(t *validate.T) {
	s := registered(t)
	list := s.al.Adapters()
	kit.Equal(t, "adapters", len(list), len(s.hcas))
	for i, a := range list {
		kit.Equal(t, "adapters in the order of registration", a.GUID(), s.guid(i))
		for j := range a.Attr().Ports {
			port := &a.Attr().Ports[j]
			for index := range port.GIDs {
				gid := port.GIDs[index].GID
				if gid == (ci.GID{}) {
					continue
				}
				got, num, err := s.al.AdapterByGID(gid)
				kit.OK(t, err, "AL.AdapterByGID")
				kit.True(t, got == a && num == port.Num, "AL.AdapterByGID", "adapter and port with the GID",
					"%v, port %d", got.GUID(), num)
				num, _, err = a.FindGID(gid)
				kit.OK(t, err, "Adapter.FindGID")
				kit.Equal(t, "port of Adapter.FindGID", num, port.Num)
			}
			if len(port.PKeys) > 0 && port.PKeys[0] != 0 {
				index, pkey, err := a.FindPKey(port.Num, port.PKeys[0])
				kit.OK(t, err, "Adapter.FindPKey")
				kit.True(t, port.PKeys[index] == pkey, "Adapter.FindPKey", "an index of the entry it returns",
					"index %d, %#x", index, pkey)
			}
		}
		_, err := a.Port(uint8(len(a.Attr().Ports)) + 1)
		kit.WantExactly(t, err, "Adapter.Port of a port that the adapter does not have", ci.InvalidPort)
	}
	_, _, err := s.al.AdapterByGID(ci.GID{1, 2, 3})
	kit.WantExactly(t, err, "AL.AdapterByGID of an unknown GID", ci.NotFound)
	a, b := s.open(s.client, 0), s.open(s.client, 1)
	foreign := b.CQ(b.PD(), 4)
	pd := a.PD()
	_, err = pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
		SendCQ: foreign, RecvCQ: foreign})
	kit.WantExactly(t, err, "PD.CreateQP with CQs of another adapter", ci.InvalidCQHandle)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.Equal(t, "adapters after one was removed", len(s.al.Adapters()), len(s.hcas)-1)
	_, err = foreign.Query()
	kit.OK(t, err, "CQ.Query of the other adapter")
	s.rec[0].shut(t)
	s.rec[1].clean(t)
}
