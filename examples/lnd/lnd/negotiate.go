package lnd

import (
	"encoding/binary"
	"fmt"
)

// Params are what two ends agree on. The active end asks, the passive end refuses what it cannot have, and may answer with less.
type Params struct {
	Depth    uint16 // messages under way in each direction that need a credit
	MaxFrags uint16 // pieces of a descriptor
	MsgSize  uint32 // bytes of the longest message; always MsgSize
}

func (p Params) append(b []byte, o byteOrder) []byte {
	b = o.AppendUint16(b, p.Depth)
	b = o.AppendUint16(b, p.MaxFrags)
	return o.AppendUint32(b, p.MsgSize)
}

func parseParams(b []byte, o byteOrder) Params {
	return Params{Depth: o.Uint16(b), MaxFrags: o.Uint16(b[2:]), MsgSize: o.Uint32(b[4:])}
}

// Why is the reason of a refusal.
type Why uint8

// Reasons. Of those that name a limit, Reject.Params has it.
const (
	WhyRace       Why = 1 // we are calling you: take ours
	WhyResources  Why = 2
	WhyFatal      Why = 3 // do not try again, at least not in this version
	WhyUncompat   Why = 4 // in another version
	WhyStale      Why = 5 // you mean a process that has gone
	WhyFrags      Why = 6 // fewer pieces
	WhyQueueDepth Why = 7 // a shorter queue
	WhyService    Why = 8
	WhyEarly      Why = 9
)

func (w Why) String() string {
	names := [...]string{WhyRace: "the requests of both ends crossed", WhyResources: "out of resources", WhyFatal: "for good", WhyUncompat: "incompatible",
		WhyStale: "it was restarted", WhyFrags: "too many pieces", WhyQueueDepth: "the queue is too deep", WhyService: "no such service", WhyEarly: "not ready yet"}
	if int(w) < len(names) && names[w] != "" {
		return names[w]
	}
	return fmt.Sprintf("reason %d", uint8(w))
}

// Reject is the answer of who does not want to connect, in the private data of REJ.
type Reject struct {
	Version uint16
	Why     Why
	Stamp   uint64 // incarnation of who refuses
	Params  Params // what it would take
}

const rejectLen = 24

func (r *Reject) Error() string { return fmt.Sprintf("lnd: the peer refuses to connect: %v", r.Why) }

// Append encodes r behind b.
func (r *Reject) Append(b []byte) []byte {
	o := binary.LittleEndian
	b = o.AppendUint32(b, magic)
	b = o.AppendUint16(b, r.Version)
	b = append(b, byte(r.Why), 0)
	return r.Params.append(o.AppendUint64(b, r.Stamp), o)
}

// ParseReject decodes a refusal. Errors: ErrMagic, ErrMessage.
func ParseReject(b []byte) (*Reject, error) {
	if len(b) < rejectLen {
		return nil, malformed("a refusal of %d bytes", len(b))
	}
	o, err := orderOf(b)
	if err != nil {
		return nil, err
	}
	return &Reject{Version: o.Uint16(b[4:]), Why: Why(b[6]), Stamp: o.Uint64(b[8:]), Params: parseParams(b[16:], o)}, nil
}

// judge is the passive end's decision on a request: why it is refused, or 0. self, stamp and most are its own.
func judge(req []byte, self NID, stamp uint64, most Params) (Message, Why) {
	m, err := Parse(req)
	switch {
	case err != nil || m.Type != ConnReq || m.From == 0:
		return m, WhyFatal // the refusal carries our version: who asked in another can try that
	case m.Version != version2:
		return m, WhyFatal // version 1 counts credits in another way, and nobody speaks it any more
	case m.To != self:
		return m, WhyFatal
	case m.ToStamp != 0 && m.ToStamp != stamp:
		return m, WhyStale
	case m.Params.Depth > most.Depth:
		return m, WhyQueueDepth
	case m.Params.MaxFrags > most.MaxFrags:
		return m, WhyFrags
	case m.Params.Depth < minDepth || m.Params.MaxFrags == 0 || m.Params.MsgSize > most.MsgSize:
		return m, WhyFatal
	}
	return m, 0
}

// accept is the active end's look at the answer to its request.
func accept(ack []byte, req *Message) (Message, error) {
	m, err := Parse(ack)
	switch {
	case err != nil:
		return m, err
	case m.Type != ConnAck || m.Version != req.Version || m.From != req.To || m.To != req.From || m.ToStamp != req.FromStamp:
		return m, malformed("this is no answer to our request: %v of %v", m.Type, m.From)
	case m.Params.Depth > req.Params.Depth || m.Params.Depth < minDepth:
		return m, malformed("we asked for queue depth %d, the answer says %d", req.Params.Depth, m.Params.Depth)
	case m.Params.MaxFrags > req.Params.MaxFrags || m.Params.MaxFrags == 0 || m.Params.MsgSize > req.Params.MsgSize:
		return m, malformed("we asked for %d pieces, the answer says %d", req.Params.MaxFrags, m.Params.MaxFrags)
	}
	return m, nil
}

// retry tells whether to ask again after a refusal, and in which terms. A race is not for asking: the peer's own request is on its way.
func retry(r *Reject, was Params) (now Params, again bool) {
	now = was
	switch r.Why {
	case WhyStale:
		return now, true // the request now names the incarnation that refused
	case WhyQueueDepth:
		now.Depth = min(was.Depth, r.Params.Depth)
	case WhyFrags:
		now.MaxFrags = min(was.MaxFrags, r.Params.MaxFrags)
	}
	return now, now != was && now.Depth >= minDepth && now.MaxFrags > 0
}
