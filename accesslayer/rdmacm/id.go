package rdmacm

import (
	"context"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/ci"
)

// ID is one end of a connection, from before there is one until after it: rdma_cm_id. Steps are called one after the other; all other
// methods may be called concurrently with everything.
type ID struct{}

// Bind chooses the local address and port. The zero address stands for any, port 0 for a free one.
// Errors: EADDRINUSE; EADDRNOTAVAIL (no HCA has the address); InvalidState (bound before).
func (i *ID) Bind(local netip.AddrPort) error { return ci.Unsupported }

// ResolveAddr finds the HCA, port and GID from which to reach remote, or with a bound address those of that: see Source. An ID that is not
// bound yet gets a free port. It may be called again before Connect.
// Errors: those of Resolver.ResolveAddr.
func (i *ID) ResolveAddr(ctx context.Context, remote netip.AddrPort) error { return ci.Unsupported }

// ResolveRoute finds the path: see Path. Errors: those of Resolver.ResolveRoute.
func (i *ID) ResolveRoute(ctx context.Context) error { return ci.Unsupported }

// SetPath is for those who know the path, instead of ResolveRoute, or change what that found.
func (i *ID) SetPath(p cm.Path) error { return ci.Unsupported }

// CreateQP makes the ID's QP, and its CQs if need be, and moves it to Init (UD: to RTS): receives can be posted. The ID destroys what it
// made. Errors: InvalidState (no address resolved yet, or there is a QP), those of accesslayer.PD.NewQP and NewCQ.
func (i *ID) CreateQP(cfg QPConfig) error { return ci.Unsupported }

// UseQP makes a QP of the caller's, in Reset, the ID's, and moves it as CreateQP does; access as QPConfig.Access. The caller destroys it.
// Status: InvalidState, InvalidServiceType (a QP of another type).
func (i *ID) UseQP(qp ci.QP, access ci.Access) error { return ci.Unsupported }

// Connect asks the peer, and returns when the connection is established; without a QP of the ID's, when the peer has agreed: move the QP, then
// Establish. For datagrams it asks for the peer's QP: see Peer.
// Errors: *cm.RejectError, *cm.LookupError, cm.ErrTimeout, the context's; errors of moving the QP: the peer was told.
func (i *ID) Connect(ctx context.Context, cfg ConnConfig) error { return ci.Unsupported }

// Establish ends a Connect without a QP of the ID's, when the QP is in RTS: RTU is sent.
func (i *ID) Establish() error { return ci.Unsupported }

// Listen begins to receive requests for the bound address: see Manager.Listen. The Listener takes the ID over.
func (i *ID) Listen(backlog int) (*Listener, error) { return nil, ci.Unsupported }

// Request says what the peer asks for, of an ID that came from a Listener; nil of others.
func (i *ID) Request() *Request { return nil }

// Accept agrees to a request, and returns when the connection is established. Receives should be posted before. For datagrams it tells
// the peer the QP. Errors: as of Connect.
func (i *ID) Accept(ctx context.Context, cfg ConnConfig) error { return ci.Unsupported }

// Reject refuses a request. private goes to the peer's application (REJ, reason consumer; SIDR: status reject).
func (i *ID) Reject(private []byte) error { return ci.Unsupported }

// Delay tells the peer that the answer takes time, up to 69 s if its manager agrees: Accept or Reject within that (MRA).
func (i *ID) Delay() error { return ci.Unsupported }

// Notify tells that the peer's first message has come on a QP that is not the ID's (ci.EventQPComm), which establishes a connection whose RTU was
// lost. For QPs that CreateQP made it is done.
func (i *ID) Notify() error { return ci.Unsupported }

// Disconnect ends the connection: the QP goes to Error, and the peer is told. It returns when the peer has answered; without an answer
// the connection is over as well, and the error is cm.ErrTimeout. The peer may have been first: then it is answered, and that is no error.
// A second one returns at once. Datagrams have nothing to end.
func (i *ID) Disconnect(ctx context.Context) error { return ci.Unsupported }

// Close disconnects or refuses, without waiting for the peer, leaves groups, destroys what the ID made, and frees its port. It is idempotent.
func (i *ID) Close() error { return ci.Unsupported }

// Done is closed when the connection is over, whoever ended it. ID.Err says why. Work that is still posted is flushed.
func (i *ID) Done() <-chan struct{} { return nil }

// Err is nil before Done is closed, then ErrDisconnected, ErrPeerDisconnected, ErrDeviceRemoved, or what else ended the connection.
func (i *ID) Err() error { return nil }

// Next waits for the next event. Events that nobody takes are kept; there are few.
// Errors: the context's; net.ErrClosed when the ID was closed.
func (i *ID) Next(ctx context.Context) (Event, error) { return Event{}, ci.Unsupported }

// LocalAddr and RemoteAddr are the ends.
func (i *ID) LocalAddr() Addr  { return Addr{} }
func (i *ID) RemoteAddr() Addr { return Addr{} }

// Source is the port and GID that ResolveAddr, Bind or the request chose.
func (i *ID) Source() Source { return Source{} }

// Path is the path that ResolveRoute or the request gave.
func (i *ID) Path() cm.Path { return cm.Path{} }

// CA is the Manager's open of the ID's HCA, and PD the PD that IDs share there: see Manager.Device. Status: InvalidState (no HCA chosen yet).
func (i *ID) CA() (*accesslayer.CA, error) { return nil, ci.Unsupported }
func (i *ID) PD() (*accesslayer.PD, error) { return nil, ci.Unsupported }

// QP is the ID's, nil if it has none. SendCQ and RecvCQ are those that CreateQP made, nil if it did not.
func (i *ID) QP() ci.QP               { return nil }
func (i *ID) SendCQ() *accesslayer.CQ { return nil }
func (i *ID) RecvCQ() *accesslayer.CQ { return nil }

// Conn is the connection as the connection manager has it, nil before Connect and for datagrams: for alternate paths, IDs and states.
func (i *ID) Conn() cm.Conn { return nil }

// QPAttr says how to move a QP of the caller's to a state: Init, RTR, RTS. Of datagrams also before there is a peer.
// Status: InvalidState (not known yet).
func (i *ID) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	return 0, ci.QPAttr{}, ci.Unsupported
}

// Peer is the peer of a datagram ID, after Connect; of a request its address only.
func (i *ID) Peer() Peer { return Peer{} }

// Reply is the private data with which the peer agreed, AcceptLen or AnswerLen bytes, nil before.
func (i *ID) Reply() []byte { return nil }

// Peer is where datagrams go: make an address vector of AV.
type Peer struct {
	AV   ci.AVAttr
	QPN  ci.QPN
	QKey ci.QKey
}

// Request is what a peer asks for.
type Request struct {
	Private []byte // ConnectLen bytes, or LookupLen and so on
	// ResponderResources are the READs and atomics that the peer answers at a time, InitiatorDepth those it sends.
	ResponderResources, InitiatorDepth uint8
	Retries, RNRRetries                uint8
	FlowControl, SRQ                   bool
	QPN                                ci.QPN    // the peer's; of datagrams not known
	Type                               ci.QPType // its service
}
