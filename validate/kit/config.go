package kit

import (
	"ciddk/ci"
	"ciddk/validate"
)

// Config describes how QPs are created and connected. Fields that are zero have the default in their comment.
type Config struct {
	Type  ci.QPType  // service of the QP; RC, UC and UD set it
	Caps  ci.QPCaps  // zero fields: depth 16 and 4 SGEs, or fewer if the CA allows fewer; no inline data
	Flags ci.QPFlags //
	SRQ   ci.SRQ     // shared receive queue of both ends; nil: none
	Size  int        // size of each end's buffer in bytes; 0: 64 KiB
	// BufAccess has the rights of the ends' buffers, Access those that the QPs grant. 0: all, with atomics if all CAs
	// have them.
	BufAccess, Access ci.Access
	NoAccess          bool // the QPs grant no rights; Access is ignored
	OwnPD             bool // each end has a PD of its own, however few the CA has

	MTU        ci.MTU         // 0: the smaller of both ports' active MTUs
	AckTimeout ci.TimeExp     // 0: 16, which is 268 ms; doubled each time the case is run again
	NoAckTime  bool           // AckTimeout is 0: no timeout
	Retry      *uint8         // nil: 7
	RNRRetry   *uint8         // nil: 7, without limit
	MinRNR     uint8          // 0: code 12, 0.64 ms
	InitDepth  *uint8         // nil: MaxReads, or fewer if a CA allows fewer
	RespRes    *uint8         // nil: as InitDepth
	MaxReads   uint8          // 0: 4
	QKey       ci.QKey        // 0: 0x11111111
	Context    any            // context of the QPs; nil: QP.Events
	OnEvent    func(ci.Event) // callback of the QPs; nil: QP.Events.Add
}

// An Option changes a Config.
type Option func(*Config)

// OwnPD is an option: each end has a PD of its own, for cases that need another PD, or destroy it.
func OwnPD(c *Config) { c.OwnPD = true }

// Type sets the service of the QP.
func Type(t ci.QPType) Option { return func(c *Config) { c.Type = t } }

// Depth sets the depth of both queues.
func Depth(n int) Option { return func(c *Config) { c.Caps.SendDepth, c.Caps.RecvDepth = n, n } }

// SGEs sets the number of scatter/gather entries per request of both queues.
func SGEs(n int) Option { return func(c *Config) { c.Caps.SendSGE, c.Caps.RecvSGE = n, n } }

// Inline requests inline data of n bytes.
func Inline(n int) Option { return func(c *Config) { c.Caps.MaxInline = n } }

// Flags sets the create flags, such as ci.QPSignalAll.
func Flags(f ci.QPFlags) Option { return func(c *Config) { c.Flags = f } }

// WithSRQ sets the QPs' shared receive queue.
func WithSRQ(s ci.SRQ) Option { return func(c *Config) { c.SRQ = s } }

// Size sets the size of each end's buffer in bytes.
func Size(n int) Option { return func(c *Config) { c.Size = n } }

// Access sets the rights of the buffers and of the QPs; 0 means none.
func Access(a ci.Access) Option {
	return func(c *Config) { c.BufAccess, c.Access, c.NoAccess = a|ci.LocalWrite, a, a == 0 }
}

// MTU sets the path MTU.
func MTU(m ci.MTU) Option { return func(c *Config) { c.MTU = m } }

// Retry sets the transport retry count.
func Retry(n uint8) Option { return func(c *Config) { c.Retry = &n } }

// AckTime sets the local ACK timeout to 4.096 us * 2^e. 0 means no timeout.
func AckTime(e ci.TimeExp) Option { return func(c *Config) { c.AckTimeout, c.NoAckTime = e, e == 0 } }

// RNRRetry sets the RNR retry count; 7 means without limit.
func RNRRetry(n uint8) Option { return func(c *Config) { c.RNRRetry = &n } }

// MinRNR sets the RNR timer code.
func MinRNR(code uint8) Option { return func(c *Config) { c.MinRNR = code } }

// Reads sets the number of reads and atomics that the requester may have outstanding, and the number that the responder
// accepts.
func Reads(initDepth, respRes uint8) Option {
	return func(c *Config) { c.InitDepth, c.RespRes = &initDepth, &respRes }
}

// ReadsUpTo sets the numbers of Reads to n, or to fewer if a CA allows fewer.
func ReadsUpTo(n uint8) Option { return func(c *Config) { c.MaxReads = n } }

// QKey sets the Q_Key of datagram QPs.
func QKey(k ci.QKey) Option { return func(c *Config) { c.QKey = k } }

// With returns an option that calls f. It is for fields that have no option of their own.
func With(f func(*Config)) Option { return f }

// config applies the options and sets the defaults that the CAs allow.
func config(opts []Option, cas ...*CA) Config {
	var c Config
	for _, o := range opts {
		o(&c)
	}
	if c.MaxReads == 0 {
		c.MaxReads = 4
	}
	sges, reads, mtu := 4, c.MaxReads, ci.MTU4096
	depth, inCQ := validate.QueueDepth, 2*validate.QueueDepth
	atomics := true
	for _, ca := range cas {
		sges = min(sges, ca.Attr.MaxSGEs)
		inCQ = min(inCQ, ca.Attr.MaxCQEs)
		depth = min(depth, ca.Attr.MaxWRs, max(inCQ/2, 1))
		reads = uint8(min(int(reads), ca.Attr.MaxRespResPerQP, ca.Attr.MaxInitDepthPerQP))
		mtu = min(mtu, ca.MTU())
		atomics = atomics && ca.Attr.Atomicity != ci.AtomicNone
	}
	orInt(&c.Caps.SendDepth, depth)
	if c.SRQ == nil {
		orInt(&c.Caps.RecvDepth, depth)
		orInt(&c.Caps.RecvSGE, sges)
	} else {
		c.Caps.RecvDepth, c.Caps.RecvSGE = 0, 0
	}
	orInt(&c.Caps.SendSGE, sges)
	orInt(&c.Size, 64<<10)
	all := AllAccess
	if atomics {
		all |= ci.RemoteAtomic
	}
	if c.BufAccess == 0 {
		c.BufAccess = all
	}
	if c.Access == 0 && !c.NoAccess {
		c.Access = all
	}
	c.Access &^= ci.BindWindow | ci.ZeroBased | ci.NotCachable // rights of regions only
	if c.MTU == 0 {
		c.MTU = mtu
	}
	if c.AckTimeout == 0 && !c.NoAckTime {
		c.AckTimeout = 16
		if len(cas) > 0 {
			c.AckTimeout += ci.TimeExp(cas[0].T.Rerun()) // doubled in each attempt
		}
	}
	if c.MinRNR == 0 {
		c.MinRNR = 12
	}
	if c.QKey == 0 {
		c.QKey = 0x11111111
	}
	seven := uint8(7)
	for _, p := range []struct {
		field **uint8
		def   uint8
	}{
		{&c.Retry, seven}, {&c.RNRRetry, seven}, {&c.InitDepth, reads}, {&c.RespRes, reads},
	} {
		if *p.field == nil {
			d := p.def
			*p.field = &d
		}
	}
	return c
}

func orInt(p *int, def int) {
	if *p == 0 {
		*p = def
	}
}
