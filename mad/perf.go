package mad

// Lengths in a performance management datagram in bytes: all headers, and the attribute that follows them.
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

// AllPorts in PortSelect selects all ports of the node, if ClassPortInfo has PerfCapAllPortSelect.
const AllPorts uint8 = 0xff

// Perf is a performance management datagram (16.1.1).
type Perf struct {
	Header                       // bytes 0-23
	Reserved24 [40]byte          // bytes 24-63
	Data       [PerfDataLen]byte // bytes 64-255: the attribute
}

// Put writes the datagram to b[:Size]. It panics if b is shorter.
func (p *Perf) Put(b []byte) {
	_ = b[Size-1]
	p.Header.Put(b)
	copy(b[HeaderLen:PerfHeaderLen], p.Reserved24[:])
	copy(b[PerfHeaderLen:Size], p.Data[:])
}

// Parse reads the datagram from b[:Size]. It panics if b is shorter.
func (p *Perf) Parse(b []byte) {
	_ = b[Size-1]
	p.Header.Parse(b)
	p.Reserved24, p.Data = [40]byte(b[HeaderLen:PerfHeaderLen]), [PerfDataLen]byte(b[PerfHeaderLen:Size])
}

// CheckPerf validates the header of a received datagram.
//
// Errors: ErrClass; ErrVersion for a class version other than 1, which an agent answers with StatusBadVersion.
func (h *Header) CheckPerf() error {
	switch {
	case h.Class != ClassPerformance:
		return errorf(ErrClass, "Header", "Class", "%v, want %v", h.Class, ClassPerformance)
	case h.ClassVersion != ClassVersionPerformance:
		return errorf(ErrVersion, "Header", "ClassVersion", "%d, want %d", h.ClassVersion, ClassVersionPerformance)
	}
	return nil
}

// ParsePerf parses a datagram received on QP1.
//
// Errors: those of ParseHeader and CheckPerf. ParsePerf fills in p.Header after every error except ErrLength.
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
