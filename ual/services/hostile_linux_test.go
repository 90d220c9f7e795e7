package services_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// hostile fills requests with random values that match their declarations often.
type hostile struct {
	rnd     *rand.Rand
	handles []schema.Handle
	gid     ci.GID
	guid    ci.GUID
	qpn     ci.QPN
}

// fill sets the fields of a request.
func (h *hostile) fill(v reflect.Value, name string) {
	switch v.Interface().(type) {
	case schema.Handle:
		v.SetUint(uint64(h.handles[h.rnd.IntN(len(h.handles))]))
		return
	case ci.GID:
		v.Set(reflect.ValueOf(h.gid))
		return
	case ci.GUID:
		v.SetUint(uint64(h.guid))
		return
	case ci.QPN:
		v.SetUint(uint64(h.qpn))
		return
	}
	small := h.rnd.Uint64N(4)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(small == 0)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if name == "Reserved" || len(name) >= 3 && name[:3] == "Pad" {
			return
		}
		if h.rnd.IntN(8) == 0 {
			small = h.rnd.Uint64() >> (64 - v.Type().Bits())
		}
		v.SetUint(small)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(small))
	case reflect.String:
		v.SetString("hostile")
	case reflect.Slice:
		n := h.rnd.IntN(80)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			h.fill(v.Index(i), "")
		}
	case reflect.Array:
		for i := range v.Len() {
			if name[:min(3, len(name))] != "Pad" {
				h.fill(v.Index(i), "")
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			h.fill(v.Field(i), v.Type().Field(i).Name)
		}
	}
}

// TestRandomCommands sends random sequences of the services' commands from clients that then disappear. The daemon
// serves others meanwhile, and nothing is left of them.
func TestRandomCommands(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	guid := r.hcas[0].Info().GUID
	for round := range 5 {
		rnd := rand.New(rand.NewPCG(uint64(round), 7))
		c := r.connect()
		h := &hostile{rnd: rnd, guid: guid, handles: []schema.Handle{0}}
		ca, err := must(c.HCA(guid)).OpenCA(guid, func(ci.Event) {}, nil)
		require.NoError(t, err)
		attr, err := ca.Query()
		require.NoError(t, err)
		h.gid = attr.Ports[0].GIDs[0].GID
		pd, err := ca.AllocatePD(ci.PDNormal)
		require.NoError(t, err)
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		require.NoError(t, err)
		qp, err := pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq})
		require.NoError(t, err)
		h.qpn = qp.Num()
		n, err := c.NewNotices(nil)
		require.NoError(t, err)
		h.handles = append(h.handles, n.Handle())
		var opened schema.Created
		require.NoError(t, c.Do(schema.CmdOpenServices, &schema.OpenServices{Async: n.Handle()}, &opened))
		h.handles = append(h.handles, opened.Handle)
		succeeded := 0
		for range 3000 {
			cmd := schema.CmdOpenServices + schema.Command(rnd.IntN(int(schema.NumCommands-schema.CmdOpenServices)))
			if rnd.IntN(20) == 0 {
				cmd = schema.CmdDestroy
			}
			spec := schema.Commands[cmd]
			request, reply := reflect.New(spec.Request), reflect.New(spec.Reply)
			h.fill(request.Elem(), "")
			if c.Do(cmd, request.Interface(), reply.Interface()) != nil {
				continue // rejected
			}
			succeeded++
			for _, name := range []string{"Handle", "Object"} {
				if f := reflect.Indirect(reply).FieldByName(name); f.IsValid() && f.Uint() != 0 {
					h.handles = append(h.handles, schema.Handle(f.Uint()))
				}
			}
		}
		require.Positive(t, succeeded)
		at := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(7000+round))
		ln, err := server.Listen(at, rdmacm.ListenConfig{})
		require.NoError(t, err)
		accepted := make(chan error, 1)
		go func() {
			q, err := ln.Accept(t.Context())
			if err == nil {
				_, err = q.Accept(t.Context())
			}
			accepted <- err
		}()
		conn, err := client.Dial(deadline(t), at)
		require.NoError(t, err, "the daemon serves others")
		require.NoError(t, <-accepted)
		require.NoError(t, conn.Close())
		require.NoError(t, ln.Close())
		require.NoError(t, c.Close(), "the daemon destroys everything")
		eventually(t, fmt.Sprint("the end of client ", round), func() bool { return len(r.core.Sessions()) == 2 })
	}
}
