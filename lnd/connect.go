package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/mad"
)

// This file has what both ends say when they connect, without I/O: which requests and replies are valid, and what is
// tried after a rejection.

// params are the parameters of a connection. The active end sends its own in CONNREQ. The passive end rejects the
// request, or accepts it with CONNACK and the same or lower values.
type params struct {
	Depth   uint16 // messages with a credit in flight in each direction
	Frags   uint16 // pieces of memory in one message
	MsgSize uint32 // length of the longest message in bytes
}

// least are the lowest parameters with which a connection works: a GET_REQ with one piece fits in a message.
var least = params{Depth: minDepth, Frags: 1, MsgSize: headerSize + lnetSize + 8 + 8 + 12}

// within reports whether all values of p are at most those of most, and at least those of least.
func (p params) within(most params) bool {
	return p.Depth >= least.Depth && p.Frags >= least.Frags && p.MsgSize >= least.MsgSize &&
		p.Depth <= most.Depth && p.Frags <= most.Frags && p.MsgSize <= most.MsgSize
}

// A Reject is the rejection of a connection, as in the private data of REJ.
type Reject struct {
	Magic   uint32
	Version uint16
	Why     Why
	_       uint8
	Stamp   uint64 // start time of the sender
	Params  params // that it would accept
}

// A Why is the reason of a Reject.
type Why uint8

// Reasons.
const (
	WhyRace      Why = 1 + iota // both ends connect at the same time; the connection of the higher NID is used
	WhyResources                // no resources
	WhyFatal                    // an invalid request; a retry is useless
	WhyVersion                  // incompatible version
	WhyStale                    // the request is for an earlier process, or the peer had connections with one
	WhyFrags                    // too many pieces
	WhyDepth                    // too much depth
	WhyService                  // no such service
	WhyEarly                    // the peer is starting
)

var whyNames = [...]string{WhyRace: "race", WhyResources: "resources", WhyFatal: "fatal", WhyVersion: "version",
	WhyStale: "stale", WhyFrags: "fragments", WhyDepth: "queue depth", WhyService: "service", WhyEarly: "early"}

func (w Why) String() string {
	if int(w) < len(whyNames) && whyNames[w] != "" {
		return whyNames[w]
	}
	return fmt.Sprintf("reason %d", uint8(w))
}

func (r *Reject) Error() string {
	return fmt.Sprintf("lnd: the peer rejects the connection: %v; its version is %#x and its parameters %+v", r.Why,
		r.Version, r.Params)
}

// encode returns the encoded rejection. It sets the magic number.
func (r Reject) encode() []byte {
	r.Magic = magic
	b, _ := binary.Append(nil, binary.LittleEndian, &r) // no error: the size is fixed
	return b
}

// refusal returns the Reject in an error of the connection manager, or the error. A peer whose connection manager finds
// a stale connection is as one that rejects it.
func refusal(err error) error {
	e, ok := errors.AsType[*cm.RejectError](err)
	if !ok {
		return err
	}
	if e.Reason == mad.RejStaleConnection {
		return &Reject{Why: WhyStale, Version: version2}
	}
	r := &Reject{}
	if order := orderOf(e.Private, magic); order != nil {
		if _, bad := binary.Decode(e.Private, order, r); bad == nil {
			return r
		}
	}
	return err
}

// checkRequest checks a request at the passive end. It returns the reason to reject it, or 0. self, stamp
// and most are those of the passive end.
func checkRequest(request []byte, self NID, stamp uint64, most params) (message, Why, error) {
	m, err := parse(request)
	if m.Version == version1 {
		most.Depth = version1Depth
	}
	switch p := m.params; {
	case err != nil:
		return m, WhyFatal, err
	case m.Type != connReq || m.To != self:
		return m, WhyFatal, malformed("%v from %v for %v is no request for %v", m.Type, m.From, m.To, self)
	case m.ToStamp != 0 && m.ToStamp != stamp:
		return m, WhyStale, nil
	case p.Depth > most.Depth:
		return m, WhyDepth, nil
	case p.Frags > most.Frags:
		return m, WhyFrags, nil
	case !p.within(most) || m.Version == version1 && p.Depth < version1Least:
		return m, WhyFatal, malformed("CONNREQ with %+v", p)
	}
	return m, 0, nil
}

// Depths of connections of version 1: the one that both ends ask for, and the lowest one. With less, each NOOP would
// cause another one, because it returns the credit of the last one.
const (
	version1Depth = 8
	version1Least = 3
)

// checkReply checks the reply to a request of some version at the active end. Errors: ErrMessage.
func checkReply(reply []byte, req *message, version uint16) (message, error) {
	m, err := parse(reply)
	switch {
	case err != nil:
		return m, err
	case m.Type != connAck || m.From != req.To || m.To != req.From || m.ToStamp != req.FromStamp:
		return m, malformed("this is no reply to the request: %+v", m.header)
	case m.Version != version:
		return m, malformed("the version is %#x, in the reply %#x", version, m.Version)
	case !m.params.within(req.params) || version == version1 && m.params.Depth < version1Least:
		return m, malformed("%+v were requested, the reply has %+v", req.params, m.params)
	}
	return m, nil
}

// An attempt has what a request to connect says.
type attempt struct {
	version uint16
	params  params
	stamp   uint64 // of the peer, 0 if it is not known
}

// next returns what to try after an error of a, and whether there is anything to try.
func (a attempt) next(err error) (attempt, bool) {
	was := a
	r, ok := errors.AsType[*Reject](err)
	if !ok {
		// An adapter that cannot create a queue pair may be able to create a smaller one.
		if accesslayer.TooDeep(err) {
			a.params.Depth--
		}
		return a, a.params.Depth != was.params.Depth && a.params.Depth >= minDepth
	}
	if r.Stamp != 0 {
		a.stamp = r.Stamp
	}
	older := r.Version == version1 && a.version != version1
	switch {
	case r.Why == WhyRace, r.Why == WhyStale:
		return a, true
	case older && (r.Why == WhyVersion || r.Why == WhyFatal): // FATAL: a node that has never heard of version 2
		a.version, a.params.Depth = version1, version1Depth
		return a, true
	case r.Why == WhyDepth:
		a.params.Depth = min(a.params.Depth, r.Params.Depth)
		return a, a.params.Depth != was.params.Depth && a.params.within(was.params)
	case r.Why == WhyFrags:
		a.params.Frags = min(a.params.Frags, r.Params.Frags)
		return a, a.params.Frags != was.params.Frags && a.params.within(was.params)
	}
	return a, false
}
