package ladder_test

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// A scene is a run with its chart.
type scene struct {
	file      string // file name below docs
	title     string
	ends      [2]string
	ports     int // ports of each end; 0: 1
	consumers [2]func(*world, *end)
	lost      int    // number of packets
	story     string // the messages; those of the right end begin with <
}

var clientServer = [2]string{"client (active)", "server (passive)"}

var scenes = []scene{
	{file: "connect-disconnect.svg", story: "REQ, <REP, RTU, SEND, <ACK, <SEND, ACK, DREQ, <DREP",
		title: "Connect, a message each way, disconnect, time wait", ends: clientServer,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				e.connect()
				e.send("hello")
				e.complete(ci.WCSend)
				e.complete(ci.WCRecv)
				e.call("Disconnect")
				_, err := e.conn.Disconnect(w.t.Context(), nil)
				require.NoError(w.t, err)
				e.over()
			},
			func(w *world, e *end) {
				e.accept(cm.EventEstablished)
				e.complete(ci.WCRecv)
				e.send("hello yourself")
				e.complete(ci.WCSend)
				e.event(cm.EventDisconnect)
				e.call("AnswerDisconnect")
				require.NoError(w.t, e.conn.AnswerDisconnect(nil))
				e.over()
			}}},
	{file: "connect-lost.svg", story: "REQ, <REP lost, <REP again, RTU lost, SEND, <ACK",
		title: "The REP is lost and sent again; the RTU is lost, and the first data establish",
		ends:  clientServer, lost: 2,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				w.loseFirst("REP", "RTU")
				e.connect(func(c *cm.ConnectConfig) { c.RemoteResponseTime = 18 })
				e.send("hello")
				e.complete(ci.WCSend)
			},
			func(w *world, e *end) {
				come := make(chan struct{})
				go func() {
					defer close(come)
					e.qpEvent(ci.EventQPComm, "EventQPComm")
					e.call("Established")
					assert.NoError(w.t, e.connection().Established())
				}()
				e.accept(0)
				e.complete(ci.WCRecv)
				<-come
			}}},
	{file: "connect-mra.svg", story: "REQ, <MRA, <REP, RTU",
		title: "A slow server: the manager asks for patience", ends: clientServer,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				e.connect()
			},
			func(w *world, e *end) {
				l := e.listen()
				e.newQP(ci.RC)
				e.use(l.Accept(w.t.Context()))
				pass(150 * time.Millisecond)
				e.answer(cm.EventEstablished)
			}}},
	{file: "connect-reject.svg", story: "REQ, <REJ, REQ, <REJ",
		title: "Rejected: nobody listens; the server does not want to", ends: clientServer,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				e.newQP(ci.RC)
				for _, want := range []mad.RejReason{mad.RejInvalidServiceID, mad.RejConsumer} {
					e.call("Connect")
					_, err := e.cm.Connect(w.t.Context(), e.ask())
					var rej *cm.RejectError
					require.ErrorAs(w.t, err, &rej, "%v", err)
					require.Equal(w.t, want, rej.Reason)
					e.happens("RejectError")
					pass(20 * time.Millisecond)
				}
			},
			func(w *world, e *end) {
				pass(10 * time.Millisecond)
				l := e.listen()
				c := e.use(l.Accept(w.t.Context()))
				e.call("Reject")
				require.NoError(w.t, c.Reject(mad.RejConsumer, nil, []byte("no room")))
				_, _ = c.Next(w.t.Context())
			}}},
	{file: "connect-peer.svg", story: "REQ, <REQ, REP, <RTU",
		title: "Peer to peer: both ends ask", ends: [2]string{"the one", "the other"},
		consumers: [2]func(*world, *end){
			func(w *world, e *end) { e.connectBoth() },
			func(w *world, e *end) {
				pass(step / 3)
				e.connectBoth()
			}}},
	{file: "connect-sidr.svg", story: "SIDR_REQ lost, SIDR_REQ again, <SIDR_REP, SEND",
		title: "Which QP takes datagrams for a service? (SIDR)", ends: [2]string{"client", "server"}, lost: 1,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				e.datagrams()
				w.loseFirst("SIDR_REQ")
				e.call("Lookup")
				r, err := e.cm.Lookup(w.t.Context(), cm.LookupConfig{Service: service, Path: e.path(1),
					Timeout: 80 * time.Millisecond})
				require.NoError(w.t, err)
				e.happens("LookupReply")
				av := must(e.pd.NewAV(e.path(1).AV))
				e.send("hello", ci.Dest{AV: av, QPN: r.QPN, QKey: r.QKey})
				e.complete(ci.WCSend)
			},
			func(w *world, e *end) {
				l := must(e.cm.Listen(cm.ListenConfig{Service: service, Datagram: true}))
				e.datagrams()
				r, err := l.AcceptLookup(w.t.Context())
				require.NoError(w.t, err)
				e.happens("LookupRequest")
				e.call("Accept")
				require.NoError(w.t, r.Accept(e.qp.Num(), qkey, nil))
				e.complete(ci.WCRecv)
			}}},
	{file: "connect-alternate.svg", story: "REQ, <REP, RTU, LAP, <APR, SEND, <ACK, <SEND, ACK, SEND lost, SEND again " +
		"lost, SEND again lost, SEND again, <ACK, DREQ, <DREP",
		title: "An alternate path is loaded, and taken when the first one fails", ends: clientServer, ports: 2, lost: 3,
		consumers: [2]func(*world, *end){
			func(w *world, e *end) {
				e.connect()
				e.call("LoadAlternate")
				_, err := e.conn.LoadAlternate(w.t.Context(), cm.AlternateConfig{Path: e.path(2)})
				require.NoError(w.t, err)
				e.arm()
				e.send("there")
				e.complete(ci.WCSend)
				e.complete(ci.WCRecv)
				pass(time.Millisecond)
				w.pull()
				e.send("still there")
				e.qpEvent(ci.EventQPAPM, "EventQPAPM")
				e.complete(ci.WCSend)
				e.call("Migrated")
				require.NoError(w.t, e.conn.Migrated())
				e.call("Disconnect")
				_, err = e.conn.Disconnect(w.t.Context(), nil)
				require.NoError(w.t, err)
			},
			func(w *world, e *end) {
				e.accept(cm.EventEstablished)
				e.event(cm.EventAlternate)
				e.call("AnswerAlternate")
				require.NoError(w.t, e.conn.AnswerAlternate(mad.APRLoaded, nil, nil))
				e.arm()
				e.complete(ci.WCRecv)
				e.send("and back")
				e.complete(ci.WCSend)
				e.qpEvent(ci.EventQPAPM, "EventQPAPM")
				e.call("Migrated")
				require.NoError(w.t, e.conn.Migrated())
				e.event(cm.EventDisconnect)
				e.call("AnswerDisconnect")
				require.NoError(w.t, e.conn.AnswerDisconnect(nil))
			}}},
}

const qkey ci.QKey = 0x1234567
