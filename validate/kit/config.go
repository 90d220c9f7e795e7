package kit

import "ciddk/ci"

// Config is how QPs are made and connected. The zero value of a field means what its comment says.
type Config struct {
	Type  ci.QPType  // of ca.QP; RC, UC and UD set it
	Caps  ci.QPCaps  // zero fields: depth 16, SGEs 4 or what the CA allows, no inline
	Flags ci.QPFlags //
	SRQ   ci.SRQ     // of both ends' receive queues, if set
	Size  int        // bytes of each end's buffer; 0: 64 KiB
	// BufAccess are the rights of the ends' buffers, Access those that the QPs grant. 0: all, atomics where the CA has them.
	BufAccess, Access ci.Access
	NoAccess          bool // the QPs grant nothing (Access is not looked at)

	MTU        ci.MTU         // 0: the smaller of both ports' active MTUs
	AckTimeout ci.TimeExp     // 0: 16, 268 ms; twice that each time the case is run again
	NoAckTime  bool           // AckTimeout 0: never
	Retry      *uint8         // nil: 7
	RNRRetry   *uint8         // nil: 7, for ever
	MinRNR     uint8          // 0: code 12, 0.64 ms
	InitDepth  *uint8         // nil: 4 or what both CAs allow
	RespRes    *uint8         // nil: the same
	QKey       ci.QKey        // 0: 0x11111111
	Context    any            // of the QPs; nil: the *Events
	OnEvent    func(ci.Event) // of the QPs; nil: Add of the *Events
}

// Option changes a Config.
type Option func(*Config)

// Type sets the service of ca.QP.
func Type(t ci.QPType) Option { return func(c *Config) { c.Type = t } }

// Depth sets both queues' depths.
func Depth(n int) Option { return func(c *Config) { c.Caps.SendDepth, c.Caps.RecvDepth = n, n } }

// SGEs sets both queues' scatter/gather entries per request.
func SGEs(n int) Option { return func(c *Config) { c.Caps.SendSGE, c.Caps.RecvSGE = n, n } }

// Inline asks for inline data of n bytes.
func Inline(n int) Option { return func(c *Config) { c.Caps.MaxInline = n } }

// Flags sets the create flags, such as ci.QPSignalAll.
func Flags(f ci.QPFlags) Option { return func(c *Config) { c.Flags = f } }

// WithSRQ gives the QPs a shared receive queue.
func WithSRQ(s ci.SRQ) Option { return func(c *Config) { c.SRQ = s } }

// Size sets the bytes of each end's buffer.
func Size(n int) Option { return func(c *Config) { c.Size = n } }

// Access sets the rights of the buffers and of the QPs, 0 for none.
func Access(a ci.Access) Option {
	return func(c *Config) { c.BufAccess, c.Access, c.NoAccess = a|ci.LocalWrite, a, a == 0 }
}

// MTU sets the path MTU.
func MTU(m ci.MTU) Option { return func(c *Config) { c.MTU = m } }

// Retry sets the transport retry count, and AckTime the time before the first.
func Retry(n uint8) Option { return func(c *Config) { c.Retry = &n } }

// AckTime sets the local ACK timeout, 4.096 us * 2^e.
func AckTime(e ci.TimeExp) Option { return func(c *Config) { c.AckTimeout, c.NoAckTime = e, e == 0 } }

// RNRRetry sets the RNR retry count; 7 is for ever.
func RNRRetry(n uint8) Option { return func(c *Config) { c.RNRRetry = &n } }

// MinRNR sets the RNR timer code.
func MinRNR(code uint8) Option { return func(c *Config) { c.MinRNR = code } }

// Reads sets how many reads and atomics the requester may have outstanding, and how many the responder takes.
func Reads(initDepth, respRes uint8) Option {
	return func(c *Config) { c.InitDepth, c.RespRes = &initDepth, &respRes }
}

// QKey sets the Q_Key of datagram QPs.
func QKey(k ci.QKey) Option { return func(c *Config) { c.QKey = k } }

// With is for what has no option of its own.
func With(f func(*Config)) Option { return f }

// config applies the options and fills the gaps from what the CAs allow.
func config(opts []Option, cas ...*CA) Config {
	var c Config
	for _, o := range opts {
		o(&c)
	}
	sges, reads, mtu := 4, uint8(4), ci.MTU4096
	atomics := true
	for _, ca := range cas {
		sges = min(sges, ca.Attr.MaxSGEs)
		reads = uint8(min(int(reads), ca.Attr.MaxRespResPerQP, ca.Attr.MaxInitDepthPerQP))
		mtu = min(mtu, ca.Port.MTU)
		atomics = atomics && ca.Attr.Atomicity != ci.AtomicNone
	}
	orInt(&c.Caps.SendDepth, 16)
	if c.SRQ == nil {
		orInt(&c.Caps.RecvDepth, 16)
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
			c.AckTimeout += ci.TimeExp(cas[0].T.Rerun()) // the case lost traffic before: twice the time in each attempt
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
	}{{&c.Retry, seven}, {&c.RNRRetry, seven}, {&c.InitDepth, reads}, {&c.RespRes, reads}} {
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
