package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// Packet is one transport packet, or a train: N packets of one message with consecutive PSNs, of which all but the last
// carry exactly MTU bytes. A port that puts packets on a wire cuts trains, as segmentation offload does. A port that
// moves them inside the process leaves them whole. Received packets may be trains, too.
//
// All integers are host numbers. Fields that Op does not use are zero.
type Packet struct {
	Service wire.Service
	Op      wire.Op
	Start   bool // the first packet of the train starts a message
	End     bool // the last packet of the train ends it
	HasImm  bool
	HasInv  bool
	SE      bool // solicited event, on the last packet
	Ack     bool // acknowledge request, on the last packet
	MigReq  bool
	CE      bool // received: the network has marked all packets of the train, because it is congested (ECN)

	PKey   ci.PKey
	DestQP ci.QPN
	SrcQP  ci.QPN // DETH
	QKey   ci.QKey
	PSN    ci.PSN // of the first packet
	N      uint32 // packets, at least 1
	MTU    uint32 // bytes in all packets of a train but the last
	Len    uint32 // bytes of payload in all

	VA       uint64 // RETH, AtomicETH
	RKey     ci.Key
	DMALen   uint32 // RETH: bytes of the whole message
	Swap     uint64 // AtomicETH: swap or add; AtomicAckETH: the original value
	Compare  uint64
	Syndrome wire.Syndrome // AETH
	// FETH: placement types and selectivity
	FlushTypes, FlushSel uint8
	MSN                  uint32
	Imm                  uint32 // ImmDt, the number whose big-endian bytes travel
	Inv                  ci.Key // IETH
	Payload              [][]byte
	Route                Route // sending: from Port.Route
	Src, Dst             Addr  // receiving: addresses of the packet
	// Entropy is the value by which the sender's link distributes its flows, in a received packet: the UDP source port
	// of RoCEv2. It is 0 on links without one.
	Entropy   uint16
	GRH       []byte
	SL        ci.SL
	PathBits  uint8
	EtherType uint16 // raw
}

// Addr is the network address of a port as packets show it: by GID on Ethernet links and where a GRH is present, by LID
// on InfiniBand links. It is comparable.
type Addr struct {
	GID ci.GID
	LID ci.LID
}

// isFor reports whether the packet is addressed to a GID. It is if it carries none, or if the GID is zero.
func (p *Packet) isFor(g ci.GID) bool {
	return p.Dst.GID == g || g == ci.GID{} || p.Dst.GID == ci.GID{}
}

// isTrain reports whether a packet with N > 1 is a valid train.
func (p *Packet) isTrain(mtu uint32) bool {
	return p.MTU == mtu && uint64(p.Len) > uint64(p.N-1)*uint64(mtu) && uint64(p.Len) <= uint64(p.N)*uint64(mtu)
}

// trim drops the first k packets of a train.
func (p *Packet) trim(k uint32) {
	skip := k * p.MTU
	p.PSN = psnAdd(p.PSN, k)
	p.N -= k
	p.Len -= skip
	p.Start = false
	p.Payload = advance(p.Payload, skip)
}

// head shortens a train to its first k packets. The payload may be longer than Len afterwards.
func (p *Packet) head(k uint32) {
	p.N = k
	p.Len = k * p.MTU
	p.End, p.HasImm, p.HasInv = false, false, false
	p.SE, p.Ack = false, false
}

// supersedes reports whether p is an acknowledgement that implies old.
func (p *Packet) supersedes(old *Packet) bool {
	return p.Op == wire.OpAcknowledge && old.Op == wire.OpAcknowledge && p.Syndrome.IsACK() && old.Syndrome.IsACK() &&
		p.Service == old.Service && p.PKey == old.PKey && p.MigReq == old.MigReq && p.Src == old.Src &&
		p.Entropy == old.Entropy && p.CE == old.CE && psnDiff(p.PSN, old.PSN) >= 0
}

// advance drops the first n bytes of a gather list. It changes the first element of the list and no bytes.
func advance(segs [][]byte, n uint32) [][]byte {
	for n > 0 && len(segs) > 0 {
		if uint32(len(segs[0])) > n {
			segs[0] = segs[0][n:]
			return segs
		}
		n -= uint32(len(segs[0]))
		segs = segs[1:]
	}
	return segs
}

// wirePackets returns the number of packets, with those of trains.
func wirePackets(pkts []Packet) int {
	n := 0
	for i := range pkts {
		n += int(pkts[i].N)
	}
	return n
}
