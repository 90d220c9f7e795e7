package model

import (
	"errors"
	"fmt"
	"io"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// Config describes a model. Ports is required.
type Config struct {
	// Ports are the adapter's ports, one or two. New takes their links over: it closes them when it fails, and
	// Model.Close closes them later.
	Ports []PortConfig
	// GUID is the node's; 0: GUIDs are counted up within the process.
	GUID ci.GUID
	// Pro makes the model a ConnectX-3 Pro, which has RoCE v2.
	Pro bool
	// Windows2 announces memory windows of type 2.
	Windows2 bool
	// BoardID is the text of 16 characters or fewer that identifies the board; "" is DefaultBoardID.
	BoardID string
	// NodeDescription is the text that subnet management reads, at most 64 bytes.
	NodeDescription string
	// Clock is the source of time; nil is the machine's.
	Clock clock.Clock
	// Rand is the source of what peers must not guess; nil is crypto/rand.
	Rand io.Reader
	// QueueMemory is the limit, in bytes, of what the adapter's queues occupy in the process: see rvt.Config. 0: 256
	// MiB.
	QueueMemory int64
	// NoBlueFlame leaves BlueFlame out of the capabilities. Over vfio-user, a BlueFlame write is a message to the model
	// for each 8 bytes, and a doorbell is one message.
	NoBlueFlame bool
	// Quirks are known deviations of real adapters. None is on by default.
	Quirks Quirks
	// Trace, if not nil, is called after each command. It may not call the model.
	Trace func(Command)
}

// DefaultBoardID is the board ID of a model without one.
const DefaultBoardID = "CIDDK_MODEL_0001"

// Quirks are deviations of real ConnectX-3 adapters that test suites have recorded.
type Quirks struct {
	// FailEmptyReads completes an RDMA READ of zero bytes with a local QP operation error.
	FailEmptyReads bool
	// ClaimWindows2B announces memory windows of type 2B, which the adapter does not have.
	ClaimWindows2B bool
}

// A PortConfig describes a port.
type PortConfig struct {
	// Link is the port's link: an InfiniBand link, or an EthernetPort.
	Link rvt.Port
}

// An EthernetPort is a port of link layer Ethernet as the model uses it: a transport port whose RoCE packets the engine
// handles, and a path for all other frames.
type EthernetPort interface {
	rvt.Port
	// MAC returns the address of the port.
	MAC() [6]byte
	// SetGIDs replaces the GID table.
	SetGIDs(t []ci.GIDEntry)
	// SendFrame sends a frame, without its FCS. The port does not keep it.
	SendFrame(frame []byte)
	// OnFrame sets the function that takes the frames that are not RoCE. A frame is valid during the call.
	OnFrame(f func(frame []byte))
}

// A Command is an executed command, for Config.Trace.
type Command struct {
	Op       prm.Opcode
	Modifier uint32 // input modifier
	OpMod    uint8  // opcode modifier
	In, Out  uint64 // input parameter; output parameter or result
	Event    bool   // completion by event
	Status   prm.Status
}

// String returns the command on one line.
func (c Command) String() string {
	return fmt.Sprintf("%v in %#x mod %#x op %d out %#x: %v", c.Op, c.In, c.Modifier, c.OpMod, c.Out, c.Status)
}

func (c *Config) check() error {
	if n := len(c.Ports); n < 1 || n > maxPorts {
		return fmt.Errorf("%d ports: want 1 or %d", n, maxPorts)
	}
	for i, p := range c.Ports {
		if ci.IsNil(p.Link) {
			return fmt.Errorf("port %d has no Link", i+1)
		}
		if _, ok := ci.As[EthernetPort](p.Link); !ok && p.Link.Attr().Link == ci.LinkEthernet {
			return fmt.Errorf("port %d is Ethernet, and its Link is not an EthernetPort", i+1)
		}
	}
	if len(c.BoardID) > prm.AdapterBoardIDSize {
		return fmt.Errorf("BoardID has %d characters: at most %d", len(c.BoardID), prm.AdapterBoardIDSize)
	}
	if len(c.NodeDescription) > 64 {
		return errors.New("NodeDescription has more than 64 bytes")
	}
	return nil
}

// maxPorts is the most ports of a ConnectX-3.
const maxPorts = 2
