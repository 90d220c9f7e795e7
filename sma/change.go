package sma

import "ciddk/ci"

// A Change is a set of what has changed in a node's attributes.
type Change uint32

// Changes.
const (
	ChangeLID            Change = 1 << iota // LID or LMC
	ChangeSM                                // LID or SL of the subnet manager
	ChangeGIDPrefix                         // all GIDs change with it
	ChangeGUIDs                             // the GUID table
	ChangePKeys                             // the P_Key table of the port
	ChangeDown                              // the port left Init, Armed or Active for Down
	ChangeInit                              // the link came up: the port is in Init
	ChangeArmed                             // the port is in Armed
	ChangeActive                            // the port is in Active
	ChangeReregister                        // the subnet manager wants clients to register again
	ChangeMKey                              // M_Key, its protection or its lease
	ChangeMTU                               // NeighborMTU
	ChangeVLs                               // OperationalVLs or VLHighLimit
	ChangeSpeed                             // width or speed enabled: it takes effect when the link trains again
	ChangeEnforce                           // partition enforcement and raw filters of a switch port
	ChangeSLtoVL                            // an SL to VL mapping table
	ChangeVLArb                             // a VL arbitration table
	ChangeSwitch                            // SwitchInfo
	ChangeLinear                            // the linear forwarding table
	ChangeMulticast                         // the multicast forwarding table
	ChangeLED                               // the state of the LED
	ChangeCapability                        // CapabilityMask
	ChangeMKeyViolations                    // an SMP failed the M_Key check
	ChangeTimeout                           // SubnetTimeOut or InitTypeReply, which cause no event
)

// Has reports whether all changes of x are in c.
func (c Change) Has(x Change) bool { return c&x == x }

var changeEvents = [...]struct {
	bit   Change
	event ci.EventType
}{
	{ChangeLID, ci.EventLIDChange}, {ChangeSM, ci.EventSMChange}, {ChangeGIDPrefix, ci.EventGIDChange},
	{ChangeGUIDs, ci.EventGIDChange}, {ChangePKeys, ci.EventPKeyChange}, {ChangeDown, ci.EventPortDown},
	{ChangeActive, ci.EventPortActive}, {ChangeInit, ci.EventPortInit}, {ChangeReregister, ci.EventReregister},
	{ChangeCapability, ci.EventPortTrap}, {ChangeMKeyViolations, ci.EventMKeyTrap},
}

// Events calls raise for each event that an adapter's port raises after the change, in an order that does not depend on
// the order of the bits.
func (c Change) Events(raise func(ci.EventType)) {
	for _, e := range changeEvents {
		if c.Has(e.bit) {
			raise(e.event)
		}
	}
}
