package sma

import "ciddk/ci"

// A Node is what an Agent manages: an adapter, a port of an adapter, or a switch. It holds the attributes and executes
// Get and Set of one attribute at a time. A SoftNode keeps the attributes in memory; NewCANode returns a node over a
// driver.
//
// The methods may be called concurrently.
type Node interface {
	// Type returns mad.NodeCA, mad.NodeSwitch or mad.NodeRouter. It does not change.
	Type() uint8
	// NumPorts returns the number of ports, without port 0 of a switch. It does not change.
	NumPorts() uint8
	// Execute executes a request whose header the agent has checked, for a method that the attribute has. It overwrites
	// q.Data with the attribute of the response. The status is one of package mad's; a Set with a status other than
	// mad.StatusOK has changed nothing. With answered false, no response is sent.
	Execute(q Request) (status uint16, answered bool)
}

// A Request is a Get or a Set of one attribute.
type Request struct {
	Port      uint8  // on which the SMP arrived; 0: from the node itself or, of a switch, to its port 0
	SLID      ci.LID // source LID of the packet; permissive with a directed route, 0 from the node itself
	Set       bool
	Authentic bool // the SMP has the M_Key of the port, or the port has none
	Attribute uint16
	Modifier  uint32
	Data      []byte  // mad.SMPDataLen bytes: the attribute
	MAD       *ci.MAD // the SMP that the request is in; a node changes nothing of it but Data
}

// A KeyedNode is a Node whose M_Keys the agent checks. A node without these methods checks the key in Execute.
type KeyedNode interface {
	Node
	// Protection returns the protection of SMPs that arrive on a port. Port 0 of a switch protects all its ports.
	Protection(port uint8) Protection
	// CountMKeyViolation adds one to MKeyViolations of the port.
	CountMKeyViolation(port uint8)
	// ExpireMKey sets the port's protection level to 0, since its lease has expired.
	ExpireMKey(port uint8)
}

// A Protection is the M_Key of a port and how it is protected (IBTA volume 1, 14.2.4).
type Protection struct {
	Key   uint64 // 0: no protection
	Level uint8  // 0: all may read; 1: the key is not shown; 2 and 3: only its owner may read
	Lease uint16 // seconds; 0: the protection does not expire
}

// A Notifier is a Node that can send traps: it holds the address of the subnet manager.
type Notifier interface {
	Node
	// Manager returns where traps of the port go. ok is false if there is no subnet manager, or if the state of the
	// port does not allow it to send.
	Manager(port uint8) (m Manager, ok bool)
}

// A Manager is the address of the subnet manager of a port, and what limits the traps to it.
type Manager struct {
	LID     ci.LID // of the manager
	SL      ci.SL
	Own     ci.LID     // the port's LID
	Timeout ci.TimeExp // SubnetTimeout: no more than one trap in this time
}
