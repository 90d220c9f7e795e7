package validate

import (
	"context"
	"slices"
	"time"

	"ciddk/ci"
)

// Wire is an end of the link under test that no adapter sits at: the certifier plays the peer there, packet by packet, and judges what
// the adapter sends to it. A vendor of hardware gives one over an AF_PACKET socket on the other end of the cable, a vendor of a model
// one over the model's port; for an adapter made of software a UDP socket will do.
//
// Packets are whole: on Ethernet from the IP header (RoCEv2, no Ethernet header), on InfiniBand from the LRH to the VCRC.
type Wire interface {
	// Info says who this end is. It does not change.
	Info() WireInfo
	// Send puts a packet on the link as it is, wrong or right; it is the certifier that computed its checksums, with 0 in the IPv4
	// identification and DF set. Packets leave in the order of the calls.
	Send(packet []byte) error
	// Recv gives the next packet that came to this end, in order of arrival; the slice is the caller's. Its error is that of
	// the context when that ends first.
	Recv(ctx context.Context) ([]byte, error)
	// Close ends Recv with an error. Idempotent.
	Close() error
}

// WireInfo describes an end of the link.
type WireInfo struct {
	Link ci.Link
	GID  ci.GID // the end's address; on Ethernet it fits an entry of the GID table of the HCA under test
	LID  ci.LID // on InfiniBand
	// Other is a second address that Send takes packets from, for packets that come from where they should not; zero if there is none.
	Other ci.GID
	// OtherLID is the same on InfiniBand: a LID that no port of the link has.
	OtherLID ci.LID
	UDPPort  uint16 // destination port on Ethernet: 4791, unless the driver was told to use another
	// Raw says that the bytes from the BTH on (on InfiniBand from the LRH on) are those that the adapter makes and takes. Without it they are
	// an encoding made beside it, as on a link within a process, and cases about CRCs, padding and reserved bits say nothing.
	Raw bool
	// Header says the same of the whole IP header, Checksum of the UDP checksum. Class, Hops and Label say it of single fields: the traffic
	// class (TOS), the hop limit (TTL), the flow label of IPv6. A UDP socket shows these three at most, and 0 stands in their place if not.
	Header, Checksum, Class, Hops, Label bool
	// SendsHeader says that Send leaves traffic class, hop limit and flow label as they are. UDP sockets send their own.
	SendsHeader bool
}

// WirePacket is a packet of a case's evidence.
type WirePacket struct {
	Time     time.Time
	Link     ci.Link
	FromHCA  bool // sent by the adapter under test; else by the certifier
	Data     []byte
	Comments []string // what it broke
}

// Wire opens the certifier's end of the link; it is closed when the case is over. The case needs Needs.Wire.
func (t *T) Wire() Wire {
	if t.target.Wire == nil {
		t.Harness("the case uses Wire without Needs.Wire")
	}
	w, err := t.target.Wire()
	if err != nil {
		t.Harness("opening an end of the link: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Logf("closing the end of the link: %v", err)
		}
	})
	return w
}

// Packet records a packet as evidence, for the capture of a case that fails. It gives the packet's number, from 1.
func (t *T) Packet(p WirePacket) int {
	p.Data = slices.Clone(p.Data)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.packets) >= maxPackets {
		return maxPackets
	}
	t.packets = append(t.packets, p)
	return len(t.packets)
}

// maxPackets bounds the evidence of one case.
const maxPackets = 10000

// Remark adds to the evidence what is wrong with a packet, given by the number that Packet gave.
func (t *T) Remark(n int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n >= 1 && n <= len(t.packets) {
		p := &t.packets[n-1]
		p.Comments = append(p.Comments, text)
	}
}
