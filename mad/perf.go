package mad

// Lengths of a performance management datagram in bytes: all headers, and the attribute behind them.
const (
	PerfHeaderLen = 64
	PerfDataLen   = Size - PerfHeaderLen
)

// Attributes of performance management (16.1.2). ClassPortInfo is AttrClassPortInfo.
const (
	AttrPortSamplesControl   uint16 = 0x0010
	AttrPortSamplesResult    uint16 = 0x0011
	AttrPortCounters         uint16 = 0x0012
	AttrPortCountersExtended uint16 = 0x001d
)

// AllPorts in PortSelect stands for all ports of the node, where ClassPortInfo has PerfCapAllPortSelect.
const AllPorts uint8 = 0xff

// Perf is a performance management datagram (16.1.1).
//
//	byte 0:24   header
//	byte 24:40  reserved
//	byte 64     attribute
type Perf struct {
	Header
	Reserved24 [40]byte
	Data       [PerfDataLen]byte
}

// Put writes the datagram to b[:Size]; b must be that long.
func (p *Perf) Put(b []byte) {
	_ = b[Size-1]
	p.Header.Put(b)
	copy(b[HeaderLen:PerfHeaderLen], p.Reserved24[:])
	copy(b[PerfHeaderLen:Size], p.Data[:])
}

// Parse reads the datagram from b[:Size]; b must be that long.
func (p *Perf) Parse(b []byte) {
	_ = b[Size-1]
	p.Header.Parse(b)
	p.Reserved24, p.Data = [40]byte(b[HeaderLen:PerfHeaderLen]), [PerfDataLen]byte(b[PerfHeaderLen:Size])
}

// Check returns an *Error that names the first field that no sender may send so: ErrVersion, ErrClass, ErrReserved.
func (p *Perf) Check() error {
	if err := p.Header.Check(); err != nil {
		return err
	}
	if err := p.CheckPerf(); err != nil {
		return err
	}
	c := checker{layout: "Perf"}
	c.zeros("Reserved24", p.Reserved24[:])
	return c.err
}

// CheckPerf judges the header of a received datagram.
//
// Errors: ErrClass; ErrVersion for another class version than 1, which an agent answers with StatusBadVersion.
func (h *Header) CheckPerf() error {
	switch {
	case h.Class != ClassPerformance:
		return errorf(ErrClass, "Header", "Class", "%v, want %v", h.Class, ClassPerformance)
	case h.ClassVersion != ClassVersionPerformance:
		return errorf(ErrVersion, "Header", "ClassVersion", "%d, want %d", h.ClassVersion, ClassVersionPerformance)
	}
	return nil
}

// ParsePerf takes apart a datagram that came from QP1.
//
// Errors: those of ParseHeader and CheckPerf, with p.Header filled in all the same, but for ErrLength.
func ParsePerf(b []byte, p *Perf) error {
	*p = Perf{}
	h, err := ParseHeader(b)
	if err == nil {
		err = h.CheckPerf()
	}
	if err != nil {
		p.Header = h
		return err
	}
	p.Parse(b)
	return nil
}
