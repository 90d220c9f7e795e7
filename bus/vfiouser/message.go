package vfiouser

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Commands.
const (
	cmdVersion       = 1
	cmdDMAMap        = 2
	cmdDMAUnmap      = 3
	cmdGetInfo       = 4
	cmdGetRegionInfo = 5
	cmdGetIRQInfo    = 7
	cmdSetIRQs       = 8
	cmdRegionRead    = 9
	cmdRegionWrite   = 10
	cmdDMARead       = 11 // from the server
	cmdDMAWrite      = 12 // from the server
	cmdReset         = 13
)

// Flags of a header.
const (
	flagTypeMask = 0xf
	flagReply    = 0x1
	flagNoReply  = 0x10
	flagError    = 0x20
)

// Region numbers: BARs 0 to 5, then these.
const (
	regionROM    = 6
	regionConfig = 7
	numRegions   = 9
)

// Interrupt indexes.
const (
	irqINTx = iota
	irqMSI
	irqMSIX
	irqError
	irqRequest
	numIRQs
)

// Flags of GET_INFO, GET_REGION_INFO and GET_IRQ_INFO.
const (
	infoReset     = 1
	infoPCI       = 2
	regionRead    = 1
	regionWrite   = 2
	irqEventfd    = 1
	irqNoResize   = 8
	dmaRead       = 1
	dmaWrite      = 2
	dmaUnmapAll   = 2
	irqDataNone   = 1
	irqDataBool   = 2
	irqDataEvent  = 4
	irqDataMask   = irqDataNone | irqDataBool | irqDataEvent
	irqActionMask = 8
	irqUnmask     = 0x10
	irqTrigger    = 0x20
)

// Bounds of messages.
const (
	headerSize = 16
	maxData    = 1 << 20 // bytes of an access to a region or to memory
	minData    = 1 << 12 // what a client with a twin socket transfers at once, or more
	maxMessage = headerSize + accessSize + maxData
	maxFiles   = 8
)

// Sizes of the bodies with a fixed layout.
const (
	dmaMapSize     = 32
	dmaUnmapSize   = 24
	infoSize       = 16
	regionInfoSize = 32
	irqInfoSize    = 16
	setIRQsSize    = 20
	accessSize     = 16
	dmaAccessSize  = 16
)

// header is the beginning of every message.
type header struct {
	ID, Command        uint16
	Size, Flags, Errno uint32
}

func (h *header) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint16(b, h.ID)
	le.PutUint16(b[2:], h.Command)
	le.PutUint32(b[4:], h.Size)
	le.PutUint32(b[8:], h.Flags)
	le.PutUint32(b[12:], h.Errno)
}

func (h *header) isReply() bool { return h.Flags&flagTypeMask == flagReply }

// errHeader is the error for a header that ends the connection: what follows it cannot be found.
var errHeader = errors.New("vfiouser: a header is not valid")

func parseHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	h = header{le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
	if h.Size < headerSize || h.Size > maxMessage || h.Flags&flagTypeMask > flagReply {
		return h, fmt.Errorf("%w: command %d, %d bytes, flags %#x", errHeader, h.Command, h.Size, h.Flags)
	}
	return h, nil
}

// words appends 32-bit numbers.
func words(b []byte, list ...uint32) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// longs appends 64-bit numbers.
func longs(b []byte, list ...uint64) []byte {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// version is the body of VERSION.
type version struct {
	Major, Minor uint16
	Capabilities capabilities
}

// capabilities is the part of the JSON text that is used.
type capabilities struct {
	MaxFiles int `json:"max_msg_fds,omitempty"`
	MaxData  int `json:"max_data_xfer_size,omitempty"`

	Twin *twinSocket `json:"twin_socket,omitempty"`
}

// twinSocket is the capability of a second socket for requests of the server. The client offers it; the server's reply
// has the index of the socket in the descriptors of the message.
type twinSocket struct {
	Supported bool `json:"supported"`
	Index     int  `json:"fd_index"`
}

// hasTwin reports whether there is a second socket.
func (c *capabilities) hasTwin() bool { return c.Twin != nil && c.Twin.Supported }

func (v *version) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, v.Major)
	b = binary.LittleEndian.AppendUint16(b, v.Minor)
	text, err := json.Marshal(map[string]capabilities{"capabilities": v.Capabilities})
	if err != nil {
		panic("vfiouser: capabilities cannot be encoded: " + err.Error())
	}
	return append(append(b, text...), 0)
}

// maxVersion is the longest VERSION body that is accepted.
const maxVersion = 4096

func parseVersion(b []byte) (v version, err error) {
	if len(b) < 4 || len(b) > maxVersion {
		return v, fmt.Errorf("vfiouser: VERSION of %d bytes", len(b))
	}
	v.Major, v.Minor = binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])
	v.Capabilities = capabilities{MaxFiles: 1, MaxData: maxData}
	text := bytes.TrimRight(b[4:], "\x00")
	if len(text) == 0 {
		return v, nil
	}
	var all struct {
		Capabilities *capabilities `json:"capabilities"`
	}
	all.Capabilities = &v.Capabilities
	if err := json.Unmarshal(text, &all); err != nil {
		return v, fmt.Errorf("vfiouser: VERSION: %w", err)
	}
	if c := &v.Capabilities; c.MaxFiles < 0 || c.MaxData < 1 {
		return v, fmt.Errorf("vfiouser: VERSION: %d descriptors and %d bytes in a message", c.MaxFiles, c.MaxData)
	}
	return v, nil
}

// access is the beginning of REGION_READ and REGION_WRITE.
type access struct {
	Offset        uint64
	Region, Count uint32
}

func (a *access) append(b []byte) []byte { return words(longs(b, a.Offset), a.Region, a.Count) }

// parseAccess parses an access. data is what follows it.
func parseAccess(b []byte) (a access, data []byte, ok bool) {
	if len(b) < accessSize {
		return a, nil, false
	}
	le := binary.LittleEndian
	a = access{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
	return a, b[accessSize:], a.Count <= maxData
}

// dmaMap is the body of DMA_MAP.
type dmaMap struct {
	Flags              uint32
	Offset, IOVA, Size uint64
}

func (m *dmaMap) append(b []byte) []byte {
	return longs(words(b, dmaMapSize, m.Flags), m.Offset, m.IOVA, m.Size)
}

func parseDMAMap(b []byte) (m dmaMap, ok bool) {
	if len(b) < dmaMapSize {
		return m, false
	}
	le := binary.LittleEndian
	return dmaMap{le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])}, true
}

// dmaUnmap is the body of DMA_UNMAP.
type dmaUnmap struct {
	Flags      uint32
	IOVA, Size uint64
}

func (m *dmaUnmap) append(b []byte) []byte {
	return longs(words(b, dmaUnmapSize, m.Flags), m.IOVA, m.Size)
}

func parseDMAUnmap(b []byte) (m dmaUnmap, ok bool) {
	if len(b) < dmaUnmapSize {
		return m, false
	}
	le := binary.LittleEndian
	return dmaUnmap{le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:])}, true
}

// dmaAccess is the beginning of DMA_READ and DMA_WRITE.
type dmaAccess struct{ Address, Count uint64 }

func (a *dmaAccess) append(b []byte) []byte { return longs(b, a.Address, a.Count) }

// parseDMAAccess parses an access. data is what follows it.
func parseDMAAccess(b []byte) (a dmaAccess, data []byte, ok bool) {
	if len(b) < dmaAccessSize {
		return a, nil, false
	}
	le := binary.LittleEndian
	a = dmaAccess{le.Uint64(b), le.Uint64(b[8:])}
	return a, b[dmaAccessSize:], a.Count > 0 && a.Count <= maxData
}

// setIRQs is the body of SET_IRQS. Data follow it if the flags have irqDataBool.
type setIRQs struct{ Flags, Index, Start, Count uint32 }

func (s *setIRQs) append(b []byte) []byte {
	return words(b, setIRQsSize, s.Flags, s.Index, s.Start, s.Count)
}

func parseSetIRQs(b []byte) (s setIRQs, data []byte, ok bool) {
	if len(b) < setIRQsSize {
		return s, nil, false
	}
	le := binary.LittleEndian
	return setIRQs{le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])}, b[setIRQsSize:], true
}
