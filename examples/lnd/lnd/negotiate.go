package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
)

// What two ends agree on before there is a connection. The active end asks, by CONNREQ. The passive end refuses what it cannot have, or answers,
// perhaps with less, by CONNACK. Whoever lacks something lives with less.

type params struct {
	Depth   uint16 // messages under way in each direction that need a credit
	Pieces  uint16 // of memory to write to; always 1 here
	MsgSize uint32 // bytes of the longest message; always msgSize
}

// Reject is a refusal, as it stands in the private data of REJ.
type Reject struct {
	Magic   uint32
	Version uint16
	Why     Why
	_       uint8
	Stamp   uint64 // when who refuses was started
	Params  params // what it would take
}

// Why is the reason of a refusal.
type Why uint8

// Reasons. Others that Linux has: 1 (both ends asked, take the peer's connection), 4 (incompatible).
const (
	WhyResources Why = 2 // there are none
	WhyFatal     Why = 3 // do not try again: we speak another version, or you do not make sense
	WhyStale     Why = 5 // you mean a process that has gone
	WhyPieces    Why = 6 // fewer
	WhyDepth     Why = 7 // less
)

func (r *Reject) Error() string {
	return fmt.Sprintf("lnd: the peer refuses to connect: reason %d, its version is %#x and its terms %+v", r.Why, r.Version, r.Params)
}

func (r Reject) append(b []byte) []byte {
	r.Magic, r.Version = magic, version
	b, _ = binary.Append(b, binary.LittleEndian, &r) // it cannot fail: the size is fixed
	return b
}

// refusal finds a Reject in an error of the connection manager.
func refusal(err error) error {
	r := &Reject{}
	if e, ok := errors.AsType[*cm.RejectError](err); ok {
		if _, bad := binary.Decode(e.Private, binary.LittleEndian, r); bad == nil && r.Magic == magic {
			return r
		}
	}
	return err
}

// judge is what the passive end thinks of a request from a node: why it is refused, or 0. self, stamp and most are its own.
func judge(request []byte, from, self, stamp uint64, most params) (message, Why) {
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

// agree is what the active end thinks of the answer to its request. Errors: ErrMessage.
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

// lower is what to try when a depth came to nothing, 0: give up. Each time it is less, so there is an end. The peer has said what it would take; an
// adapter that cannot make a queue pair of one size may be able to make a smaller one.
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
