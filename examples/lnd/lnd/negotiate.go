package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
)

// params are the parameters of a connection. The active end sends its own in CONNREQ. The passive end rejects the
// request, or accepts it with CONNACK and the same or lower values.

type params struct {
	Depth   uint16 // messages with a credit in flight in each direction
	Pieces  uint16 // of memory in one message; always 1 here
	MsgSize uint32 // length of the longest message in bytes; always msgSize
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

// Reasons. Linux also has 1 (both ends connect at the same time; use the peer's connection) and 4 (incompatible).
const (
	WhyResources Why = 2 // no resources
	WhyFatal     Why = 3 // another version or an invalid request; a retry is useless
	WhyStale     Why = 5 // the request is for an earlier process
	WhyPieces    Why = 6 // too many pieces
	WhyDepth     Why = 7 // too much depth
)

func (r *Reject) Error() string {
	return fmt.Sprintf("lnd: the peer refuses to connect: reason %d, its version is %#x and its terms %+v", r.Why,
		r.Version, r.Params)
}

func (r Reject) append(b []byte) []byte {
	r.Magic, r.Version = magic, version
	b, _ = binary.Append(b, binary.LittleEndian, &r) // no error: the size is fixed
	return b
}

// refusal returns the Reject in an error of the connection manager, or the error.
func refusal(err error) error {
	r := &Reject{}
	if e, ok := errors.AsType[*cm.RejectError](err); ok {
		if _, bad := binary.Decode(e.Private, binary.LittleEndian, r); bad == nil && r.Magic == magic {
			return r
		}
	}
	return err
}

// checkRequest checks a request from a node at the passive end. It returns the reason to reject it, or 0. self, stamp
// and most are those of the passive end.
func checkRequest(request []byte, from, self, stamp uint64, most params) (message, Why) {
	m, err := parse(request)
	switch p := m.params; {
	case err != nil || m.Type != connReq || m.From != from || m.To != self:
		return m, WhyFatal
	case m.ToStamp != 0 && m.ToStamp != stamp:
		return m, WhyStale
	case p.Depth > most.Depth:
		return m, WhyDepth
	case p.Pieces > most.Pieces:
		return m, WhyPieces
	case p.Depth < minDepth || p.Pieces == 0 || p.MsgSize > most.MsgSize:
		return m, WhyFatal
	}
	return m, 0
}

// agree checks the reply to a request at the active end. Errors: ErrMessage.
func agree(answer []byte, req *message) (message, error) {
	m, err := parse(answer)
	switch p, asked := m.params, req.params; {
	case err != nil:
		return m, err
	case m.Type != connAck || m.From != req.To || m.To != req.From || m.ToStamp != req.FromStamp:
		return m, malformed("this is no answer to our request: %+v", m.header)
	case p.Depth > asked.Depth || p.Depth < minDepth || p.Pieces != asked.Pieces || p.MsgSize > asked.MsgSize:
		return m, malformed("we asked for %+v, the answer says %+v", asked, p)
	}
	return m, nil
}

// lower returns the next depth to try after an error, or 0 to give up. It decreases with each call. A peer that rejects
// a depth names the one that it would accept. An adapter that cannot create a queue pair may be able to create a
// smaller one.
func lower(depth uint16, err error) uint16 {
	now := depth
	if r, ok := errors.AsType[*Reject](err); ok && r.Why == WhyDepth {
		now = r.Params.Depth
	}
	if accesslayer.TooDeep(err) {
		now = depth - 1
	}
	if now >= depth || now < minDepth {
		return 0
	}
	return now
}
