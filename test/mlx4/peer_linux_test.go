package mlx4

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/bus/local"
	"ciddk/ci"
	driver "ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/link/frame"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
)

// openDriver opens the kit's own driver, in this process, on a model whose port is at a link.
func openDriver(t *testing.T, c model.Config, d driver.Config, link rvt.Port) (h *driver.HCA, closeAll func() error) {
	t.Helper()
	f := local.New(newModel(t, c, link), "model")
	d.Firmware = fw.Config{ResetDelay: time.Nanosecond}
	h, err := driver.New(t.Context(), f, d)
	require.NoError(t, err)
	return h, func() error { return errors.Join(h.Close(), f.Close()) }
}

// TestDriverEthernet runs rping between two ConnectX-3 Pro, that of Linux in a guest and that of the kit's driver in
// this process, in both roles: the connection manager, SEND, READ and WRITE over RoCE v2, with checked data.
func TestDriverEthernet(t *testing.T) {
	ctx := needGuests(t, "mlx4")
	hub := frame.NewHub()
	port, err := frame.New(frame.Config{Carrier: hub.Join(), MAC: cardMAC(200), MTU: ci.MTU1024})
	require.NoError(t, err)
	h, closeAll := openDriver(t, model.Config{Pro: true, GUID: 200}, driver.Config{
		GIDs:       [][]ci.GIDEntry{{{GID: hostAddr.As16(), Type: ci.GIDRoCEv2}}},
		ResolveMAC: func(uint8, ci.GID) ([6]byte, error) { return cardMAC(0), nil },
	}, port)
	m, err := rdmacm.OpenHCA(h, rdmacm.OpenConfig{OnClose: closeAll})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	g := bootCard(t, ctx, newModel(t, model.Config{Pro: true}, ethernetLinks(t, hub)[0]))
	// The driver is no network interface, which would answer ARP.
	run(t, ctx, g, "ip", "neigh", "add", hostAddr.String(), "lladdr", macText(cardMAC(200)), "dev", netdev)
	t.Run("Linux is the server", func(t *testing.T) { requireServer(t, ctx, m, g) })
	t.Run("Linux is the client", func(t *testing.T) { requireServed(t, ctx, m, g) })
	requireQuiet(t, ctx, g)
}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// TestDriverInfiniBand runs the ping-pong programs of rdma-core in a guest against the kit's driver in this process:
// RC, UC and UD between two cards on an InfiniBand link. The guest sends back what it has received.
func TestDriverInfiniBand(t *testing.T) {
	ctx := needGuests(t, "mlx4")
	links := directLinks(t)
	h, closeAll := openDriver(t, model.Config{GUID: 200}, driver.Config{}, links[1])
	t.Cleanup(func() { assert.NoError(t, closeAll()) })
	g := boot(t, ctx, guestConfig(serve(t, newModel(t, model.Config{}, links[0]))))
	load(t, ctx, g, "mlx4_ib")
	awaitActive(t, ctx, g, 1)
	for _, tt := range []struct {
		typ  ci.QPType
		kind string
		size int
	}{{ci.RC, "rc", 1}, {ci.RC, "rc", 100_000}, {ci.UC, "uc", 10_000}, {ci.UD, "ud", 1000}} {
		t.Run(fmt.Sprint(tt.kind, " ", tt.size), func(t *testing.T) {
			const count = 50
			s, err := g.Start(ctx, "ibv_"+tt.kind+"_pingpong", "-d", device, "-s", strconv.Itoa(tt.size), "-n",
				strconv.Itoa(count))
			require.NoError(t, err)
			require.NoError(t, g.WaitListen(ctx, pingPongPort))
			p := newPinger(t, h, tt.typ, tt.size)
			p.connect(t, exchange(t, ctx, g, p.address))
			for i := range count {
				p.ping(t, ctx, i)
			}
			p.close(t)
			r, err := s.Wait()
			require.NoError(t, err)
			require.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
			require.NoError(t, checkPingPong(r.Stdout, count))
		})
	}
	requireQuiet(t, ctx, g)
}

// endAddress is the address of a QP, which the ping-pong programs exchange by TCP.
type endAddress struct {
	lid ci.LID
	num ci.QPN
	psn ci.PSN
}

// exchange sends an address to the ping-pong program that waits in the guest, and returns that of the program.
func exchange(t *testing.T, ctx context.Context, g *guest.Guest, a endAddress) (b endAddress) {
	t.Helper()
	// Busybox's nc ends when its input does, so the input is a FIFO that stays open.
	const line = `busybox rm -f /fifo; busybox mkfifo /fifo; exec 3<>/fifo; ` +
		`busybox printf '%%s\0done\0' %04x:%06x:%06x:%032x >&3; busybox nc 127.0.0.1 %d <&3`
	out := run(t, ctx, g, shell(fmt.Sprintf(line, a.lid, a.num, a.psn, 0, pingPongPort))...)
	_, err := fmt.Sscanf(out, "%x:%x:%x:", &b.lid, &b.num, &b.psn)
	require.NoError(t, err, "%q", out)
	return b
}

// pingQKey is the Q_Key of ibv_ud_pingpong.
const pingQKey = 0x11111111

// grhSize is how many bytes of a datagram's buffer are before its data.
const grhSize = 40

// A pinger is the client of a ping-pong program. Its memory has a message to send and, behind it, room for one.
type pinger struct {
	typ     ci.QPType
	size    int
	address endAddress
	ca      ci.CA
	pd      ci.PD
	cq      ci.CQ
	mr      ci.MR
	qp      ci.QP
	av      ci.AV // of UD
	to      ci.Dest
	b       []byte
}

func newPinger(t *testing.T, h ci.HCA, typ ci.QPType, size int) *pinger {
	t.Helper()
	p := &pinger{typ: typ, size: size, b: make([]byte, 2*size+grhSize)}
	var err error
	p.ca, err = h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	p.pd, err = p.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	p.cq, err = p.pd.CreateCQ(ci.CQCreate{Size: 16})
	require.NoError(t, err)
	p.mr, err = p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(p.b), Access: ci.LocalWrite})
	require.NoError(t, err)
	p.qp, err = p.pd.CreateQP(ci.QPCreate{Type: typ, SendCQ: p.cq, RecvCQ: p.cq,
		QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1, RecvDepth: 4, RecvSGE: 1}})
	require.NoError(t, err)
	require.NoError(t, p.qp.Modify(ci.ToInit{Port: 1, QKey: pingQKey}.For(typ)))
	a, err := p.ca.Query()
	require.NoError(t, err)
	p.address = endAddress{lid: a.Ports[0].LID, num: p.qp.Num(), psn: 0x123456}
	p.post(t)
	return p
}

// post posts a receive.
func (p *pinger) post(t *testing.T) {
	t.Helper()
	_, err := p.qp.PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{p.mr.Region().SGE(uint64(p.size),
		uint32(p.size+grhSize))}}})
	require.NoError(t, err)
}

// connect connects the QP to that of the program.
func (p *pinger) connect(t *testing.T, b endAddress) {
	t.Helper()
	av := ci.AVAttr{Port: 1, DLID: b.lid}
	require.NoError(t, p.qp.Modify(ci.ToRTR{AV: av, MTU: ci.MTU1024, DestNum: b.num, RQPSN: b.psn, RespRes: 1,
		MinRNRTimer: 12}.For(p.typ)))
	require.NoError(t, p.qp.Modify(ci.ToRTS{SQPSN: p.address.psn, AckTimeout: 18, RetryCount: 7, RNRRetry: 7,
		InitDepth: 1}.For(p.typ)))
	if p.typ == ci.UD {
		var err error
		p.av, err = p.pd.CreateAV(av)
		require.NoError(t, err)
		p.to = ci.Dest{AV: p.av, QPN: b.num, QKey: pingQKey}
	}
}

// ping sends message i, waits until it has come back, and compares it.
func (p *pinger) ping(t *testing.T, ctx context.Context, i int) {
	t.Helper()
	sent := p.b[:p.size]
	for k := range sent {
		sent[k] = byte(k*7 + i)
	}
	_, err := p.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, To: p.to,
		SGL: []ci.SGE{p.mr.Region().SGE(0, uint32(p.size))}}})
	require.NoError(t, err)
	at := p.size
	if p.typ == ci.UD {
		at += grhSize
	}
	for n := 0; n < 2; {
		wc := make([]ci.WC, 2)
		m, err := p.cq.Poll(wc)
		require.NoError(t, err)
		for _, w := range wc[:m] {
			require.NoError(t, w.Err(), "message %d", i)
			if w.ID == 1 {
				require.EqualValues(t, at, w.Length, "message %d", i)
			}
		}
		if n += m; m == 0 {
			runtime.Gosched()
		}
		require.NoError(t, ctx.Err(), "message %d", i)
	}
	require.True(t, bytes.Equal(sent, p.b[at:][:p.size]), "message %d: other data came back", i)
	p.post(t)
}

func (p *pinger) close(t *testing.T) {
	t.Helper()
	objects := []ci.Object{p.qp, p.mr, p.cq, p.pd, p.ca}
	if p.av != nil {
		objects = append([]ci.Object{p.av}, objects...)
	}
	for _, o := range objects {
		require.NoError(t, o.Destroy())
	}
}
