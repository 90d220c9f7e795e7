package cmsuite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A class and an attribute that only the certifier uses. Vendor range 1 has neither OUI nor RMPP.
const (
	vendorClass   = mad.ClassVendor1First
	vendorVersion = 1
	vendorAttr    = 0xff10
)

// Management datagrams through QP1 and QP0.
var datagrams = area()

func vendor(methods ...mad.Method) mads.AgentConfig {
	return mads.AgentConfig{Name: "certifier", Class: vendorClass, Version: vendorVersion, Methods: methods}
}

// datagram returns a datagram of the vendor class with random data.
func datagram(t *validate.T, method mad.Method, tid uint64) []byte {
	b := make([]byte, mad.Size)
	for i := range b {
		b[i] = byte(t.Rand().Uint32())
	}
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: vendorClass, ClassVersion: vendorVersion, Method: method,
		TID:       tid,
		Attribute: vendorAttr, Modifier: uint32(tid)}).Put(b)
	return b
}

func recv(t *validate.T, a mads.Agent, where string) *mads.Received {
	ctx, cancel := wait(t)
	defer cancel()
	r, err := a.Recv(ctx)
	if err != nil {
		t.Failf(where, "a datagram", "no datagram: %v", err)
	}
	return r
}

// none expects that an agent receives no further datagram within 10 ms.
func none(t *validate.T, a mads.Agent, where string) {
	ctx, cancel := deadline(t, time.Now().Add(10*time.Millisecond))
	defer cancel()
	if r, err := a.Recv(ctx); err == nil {
		h := r.Header()
		t.Failf(where, "no further datagram", "method %v, transaction %#x", h.Method, h.TID)
	}
}

var _ = datagrams.Add("mad.gsi.send", "send datagrams to QP1 with every byte distinct", func(t *validate.T) {
	a, b := sides(t)
	from, to := a.agent(vendor()), b.agent(vendor(mad.Send))
	for i := range uint64(3) {
		msg := datagram(t, mad.Send, 0x1122334455660000+i)
		kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: msg}), "mads.Agent.Send")
		r := recv(t, to, "QP1 of the peer")
		kit.SameBytes(t, "datagram received", r.MAD, msg)
	}
	none(t, to, "QP1 of the peer after three datagrams")
}, datagrams.Must("MAD-GSI-01", "IBTA 13.5.1", "mads, Agent.Send",
	"A datagram sent to QP1 of a port arrives there once and complete."))

var _ = datagrams.Add("mad.gsi.address", "reply to the source address of a datagram", func(t *validate.T) {
	a, b := sides(t)
	from, to := a.agent(vendor(mad.Send)), b.agent(vendor(mad.Send))
	kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: datagram(t, mad.Send, 1)}), "mads.Agent.Send")
	r := recv(t, to, "QP1 of the peer")
	kit.Equal(t, "source QP", r.From.QPN, 1)
	kit.Equal(t, "port of the received datagram", r.Port, b.port)
	if b.ca.Port.Link == ci.LinkEthernet {
		kit.True(t, r.GRH, "GRH of a datagram on Ethernet", "there", "not present")
		kit.Equal(t, "source GID", r.SGID, a.gid(b))
		kit.Equal(t, "destination GID", r.DGID, b.gid(a))
	} else {
		kit.Equal(t, "source LID", r.From.AV.DLID, a.ca.Port.LID)
	}
	back := datagram(t, mad.Send, 2)
	kit.OK(t, to.Send(&mads.Message{To: r.From, MAD: back}), "mads.Agent.Send to the source of a datagram")
	kit.SameBytes(t, "datagram sent back to the source", recv(t, from, "QP1 of the sender").MAD, back)
}, datagrams.Must("MAD-GSI-02", "IBTA 10.2.5", "mads, Received.From",
	"The source address of a datagram received through QP1 is correct, and a reply sent to it arrives."))

// answer registers an agent that answers each request with the same datagram and the R bit. It returns the number of
// answered requests.
func answer(s *side, cfg mads.AgentConfig) *atomic.Uint64 {
	var agent mads.Agent
	n := new(atomic.Uint64)
	ready := make(chan struct{})
	cfg.OnReceive = func(r *mads.Received) {
		<-ready
		n.Add(1)
		r.MAD[3] |= 0x80
		if err := agent.Send(&mads.Message{To: r.From, MAD: r.MAD}); err != nil &&
			!errors.Is(err, accesslayer.ErrClosed) {
			s.t.Report(validate.Failure{Where: "mads.Agent.Send of a response", Expected: "success",
				Got: kit.Describe(err)})
		}
	}
	agent = s.agent(cfg)
	close(ready)
	return n
}

var _ = datagrams.Add("mad.gsi.request", "requests and their responses", func(t *validate.T) {
	a, b := sides(t)
	served := answer(b, vendor(mad.Get))
	from := a.agent(vendor())
	for i := range uint64(4) {
		msg := datagram(t, mad.Get, 0xabcdef0100000000+i)
		want := append([]byte(nil), msg...)
		ctx, cancel := wait(t)
		r, err := from.Do(ctx, &mads.Message{To: a.to(b), MAD: msg, Timeout: t.Remaining()})
		cancel()
		kit.OK(t, err, "mads.Agent.Do")
		want[3] |= 0x80
		kit.SameBytes(t, "response", r.MAD, want)
	}
	kit.Equal(t, "requests that arrived", served.Load(), 4)
}, datagrams.Must("MAD-GSI-03", "IBTA 13.4.6.4", "mads, Agent.Do",
	"A response completes the request with its transaction ID and no other. The requester receives its own "+
		"transaction ID in it."))

var _ = datagrams.Add("mad.gsi.many", "400 requests, 40 at the same time", func(t *validate.T) {
	const each, workers = 10, 40
	a, b := sides(t)
	served := answer(b, vendor(mad.Get))
	from := a.agent(vendor())
	to := a.to(b)
	failed := make(chan error, workers)
	for w := range uint64(workers) {
		msg := datagram(t, mad.Get, 0)
		t.Go(func() {
			failed <- func() error {
				for i := range uint64(each) {
					tid := w<<16 | i // the lower half of the transaction ID belongs to the requester
					binary.BigEndian.PutUint64(msg[8:], tid)
					binary.BigEndian.PutUint32(msg[20:], uint32(tid))
					r, err := from.Do(t.Context(),
						&mads.Message{To: to, MAD: msg, Timeout: t.Remaining() / 4, Retries: 2})
					if err != nil {
						return fmt.Errorf("request %d of worker %d: %w", i, w, err)
					}
					if h := r.Header(); h.TID != tid || h.Modifier != uint32(tid) {
						return fmt.Errorf("request %#x got the response of %#x (transaction ID %#x)", tid, h.Modifier,
							h.TID)
					}
				}
				return nil
			}()
		})
	}
	for range workers {
		select {
		case err := <-failed:
			kit.OK(t, err, "mads.Agent.Do of 40 concurrent workers")
		case <-t.Context().Done():
			t.Failf("mads.Agent.Do of 40 concurrent workers", "an end of each request by the deadline",
				"%d of %d requests were served", served.Load(), each*workers)
		}
	}
	kit.True(t, served.Load() >= each*workers, "requests that arrived", fmt.Sprint(each*workers), "%d", served.Load())
}, datagrams.Must("MAD-GSI-04", "IBTA 13.5.3", "mads, Agent.Do",
	"Each of many concurrent requests completes once, with its own response."))

var _ = datagrams.Add("mad.gsi.rmpp", "messages of 1 to 90 segments", func(t *validate.T) {
	a, b := sides(t)
	cfg := mads.AgentConfig{Name: "certifier", Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin,
		RMPP: true}
	from := a.agent(cfg)
	cfg.Methods = []mad.Method{mad.GetTable}
	answer(b, cfg)
	for _, n := range kit.Variants(t, "bytes",
		[]int{0, 1, mad.SADataLen, mad.SADataLen + 1, 2 * mad.SADataLen, 90*mad.SADataLen - 1}) {
		msg := make([]byte, mad.SAHeaderLen+n)
		for i := range msg {
			msg[i] = byte(t.Rand().Uint32())
		}
		clear(msg[mad.HeaderLen:mad.RMPPEnd])
		(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin,
			ClassVersion: mad.ClassVersionSubnetAdmin,
			Method:       mad.GetTable, TID: uint64(n) + 1, Attribute: mad.AttrPathRecord}).Put(msg)
		ctx, cancel := wait(t)
		r, err := from.Do(ctx, &mads.Message{To: a.to(b), MAD: msg, Timeout: t.Remaining()})
		cancel()
		where := fmt.Sprintf("response with %d bytes of data", n)
		kit.OK(t, err, "mads.Agent.Do, "+where)
		kit.Equal(t, "length of the "+where, len(r.MAD), len(msg))
		kit.SameBytes(t, where, r.MAD[mad.RMPPEnd:len(msg)], msg[mad.RMPPEnd:])
	}
}, datagrams.Must("MAD-GSI-07", "IBTA 13.6", "mads, AgentConfig.RMPP",
	"A message of many segments arrives complete, in both directions."))

var _ = datagrams.Add("mad.gsi.remove", "remove the HCA during a request", func(t *validate.T) {
	a, b := sides(t)
	silent := b.agent(vendor(mad.Get))
	from := a.agent(vendor())
	msg := datagram(t, mad.Get, 5)
	end := result(t, "mads.Agent.Do after the HCA was removed", func(ctx context.Context) (*mads.Received, error) {
		return from.Do(ctx, &mads.Message{To: a.to(b), MAD: msg, Timeout: time.Hour})
	})
	recv(t, silent, "request at the peer")
	a.remove()
	_, err := end()
	kit.True(t, errors.Is(err, accesslayer.ErrClosed), "mads.Agent.Do after the HCA was removed", "ErrClosed", "%v",
		err)
	kit.Equal(t, "ports with MAD services", len(a.mads.Ports()), 0)
}, datagrams.Must("MAD-GSI-08", "CI access layer", "accesslayer, AL.Deregister; mads",
	"When the HCA is removed, pending requests end, and no object of the driver is left."))

var _ = datagrams.Needing(validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}}).Add(
	"mad.smi.request", "get NodeInfo of the peer through QP0", madSubnet,
	datagrams.Must("MAD-SMI-01", "IBTA 13.5.1", "mads, AgentConfig.SubnetManagement",
		"A subnet management datagram sent to QP0 of a peer is answered from QP0."))

func madSubnet(t *validate.T) {
	a, b := sides(t)
	from := a.agent(mads.AgentConfig{Name: "certifier", SubnetManagement: true})
	msg := make([]byte, mad.Size)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID, ClassVersion: mad.ClassVersionSubnet,
		Method: mad.Get, TID: 9,
		Attribute: mad.AttrNodeInfo}).Put(msg)
	to := a.to(b)
	to.QPN = 0
	ctx, cancel := wait(t)
	defer cancel()
	r, err := from.Do(ctx, &mads.Message{To: to, MAD: msg, Timeout: t.Remaining()})
	kit.OK(t, err, "mads.Agent.Do through QP0")
	h := r.Header()
	kit.Equal(t, "method", h.Method, mad.GetResp)
	kit.Equal(t, "status", h.Status, 0)
	var info mad.NodeInfo
	info.Parse(r.MAD[64 : 64+mad.NodeInfoLen])
	kit.Equal(t, "node GUID", info.NodeGUID, uint64(b.hca.Info().GUID))
}
