package schema

import (
	"reflect"
	"strconv"
)

// Command is the number of a request. The numbers are part of the protocol.
type Command uint16

// The commands. Each is described at its request type.
const (
	CmdHello Command = 1 + iota
	CmdListHCAs
	CmdCreateEventQueue
	CmdDestroy
	CmdOpenCA
	CmdQueryCA
	CmdModifyCA
	CmdLocalMAD
	CmdSLForIP
	CmdVendorCall
	CmdAllocatePD
	CmdCreateAV
	CmdQueryAV
	CmdModifyAV
	CmdCreateCQ
	CmdQueryCQ
	CmdResizeCQ
	CmdModifyCQ
	CmdCreateSRQ
	CmdQuerySRQ
	CmdModifySRQ
	CmdCreateQP
	CmdQueryQP
	CmdModifyQP
	CmdTimeWait
	CmdAttachMcast
	CmdRegisterMR
	CmdRegisterSMR
	CmdQueryMR
	CmdModifyMR
	CmdCreateMW
	CmdQueryMW
	CmdBindMW
	CmdNotify
	CmdPeek
	CmdPostSend
	CmdPostRecv
	CmdPostSRQRecv
	CmdPoll
	CmdStatus
	CmdControl
	CmdOpenServices
	CmdQueryServices
	CmdTakeNotice
	CmdCancel
	CmdBindPort
	CmdListenPort
	CmdRegisterAgent
	CmdSendMAD
	CmdTakeMAD
	CmdCMListen
	CmdCMAccept
	CmdCMConnect
	CmdCMReply
	CmdCMConnCall
	CmdCMLoadAlternate
	CmdCMConn
	CmdCMQPAttr
	CmdCMLookup
	CmdCMAnswerLookup
	CmdServeCopies
	NumCommands
)

// Spec declares a command.
type Spec struct {
	Name     string
	Verb     string // of package ci, for errors
	Request  reflect.Type
	Reply    reflect.Type
	Data     bool // a verb of the data path: executed in the order of arrival, and not allowed to block
	MaxFiles int  // descriptors that the request may carry
}

// None is a request or reply without fields.
type None struct{}

// Commands declares every command. The requests and replies of the data path with a variable number of work requests or
// completions have layouts of their own, so that no end needs to allocate; package native has them, and checks them
// against the same limits.
var Commands = [NumCommands]Spec{
	CmdHello:            spec[Hello, HelloReply]("hello", "ual.Dial", 0),
	CmdListHCAs:         spec[None, ListHCAsReply]("list HCAs", "HCA.Info", 0),
	CmdCreateEventQueue: spec[CreateEventQueue, Created]("create event queue", "HCA.OpenCA", 0),
	CmdDestroy:          spec[Object, DestroyReply]("destroy", "Object.Destroy", 0),
	CmdOpenCA:           spec[OpenCA, Created]("open CA", "HCA.OpenCA", MaxFiles),
	CmdQueryCA:          spec[CA, CAAttr]("query CA", "CA.Query", 0),
	CmdModifyCA:         spec[ModifyCA, None]("modify CA", "CA.Modify", 0),
	CmdLocalMAD:         spec[LocalMAD, LocalMADReply]("local MAD", "CA.LocalMAD", 0),
	CmdSLForIP:          spec[SLForIP, SLForIPReply]("SL for IP", "CA.SLForIP", 0),
	CmdVendorCall:       spec[VendorCall, VendorCallReply]("vendor call", "CA.VendorCall", MaxFiles),
	CmdAllocatePD:       spec[AllocatePD, Created]("allocate PD", "CA.AllocatePD", MaxFiles),
	CmdCreateAV:         spec[CreateAV, Created]("create AV", "PD.CreateAV", MaxFiles),
	CmdQueryAV:          spec[AV, QueryAVReply]("query AV", "AV.Query", 0),
	CmdModifyAV:         spec[ModifyAV, Changed]("modify AV", "AV.Modify", MaxFiles),
	CmdCreateCQ:         spec[CreateCQ, CreateCQReply]("create CQ", "PD.CreateCQ", MaxFiles),
	CmdQueryCQ:          spec[CQ, QueryCQReply]("query CQ", "CQ.Query", 0),
	CmdResizeCQ:         spec[ResizeCQ, ResizeCQReply]("resize CQ", "CQ.Resize", MaxFiles),
	CmdModifyCQ:         spec[ModifyCQ, None]("modify CQ", "CQ.Modify", 0),
	CmdCreateSRQ:        spec[CreateSRQ, Created]("create SRQ", "PD.CreateSRQ", MaxFiles),
	CmdQuerySRQ:         spec[SRQ, SRQAttr]("query SRQ", "SRQ.Query", 0),
	CmdModifySRQ:        spec[ModifySRQ, Changed]("modify SRQ", "SRQ.Modify", MaxFiles),
	CmdCreateQP:         spec[CreateQP, CreateQPReply]("create QP", "PD.CreateQP", MaxFiles),
	CmdQueryQP:          spec[QP, QPAttr]("query QP", "QP.Query", 0),
	CmdModifyQP:         spec[ModifyQP, Changed]("modify QP", "QP.Modify", MaxFiles),
	CmdTimeWait:         spec[TimeWait, None]("time-wait", "QP.TimeWait", 0),
	CmdAttachMcast:      spec[AttachMcast, Created]("attach multicast", "QP.AttachMcast", MaxFiles),
	CmdRegisterMR:       spec[RegisterMR, RegionReply]("register MR", "PD.RegisterMR", 1),
	CmdRegisterSMR:      spec[RegisterSMR, RegionReply]("register shared MR", "PD.RegisterSMR", 0),
	CmdQueryMR:          spec[MR, QueryMRReply]("query MR", "MR.Query", 0),
	CmdModifyMR:         spec[ModifyMR, RegionReply]("modify MR", "MR.Modify", 1),
	CmdCreateMW:         spec[CreateMW, WindowReply]("create MW", "PD.CreateMW", MaxFiles),
	CmdQueryMW:          spec[MW, WindowReply]("query MW", "MW.Query", 0),
	CmdBindMW:           data(spec[BindMW, WindowReply]("bind MW", "QP.BindMW", 0)),
	CmdNotify:           data(spec[Notify, None]("notify", "CQ.Notify", 0)),
	CmdPeek:             data(spec[CQ, PeekReply]("peek", "CQ.Peek", 0)),
	CmdPostSend:         data(spec[None, None]("post send", "QP.PostSend", 0)),
	CmdPostRecv:         data(spec[None, None]("post receive", "QP.PostRecv", 0)),
	CmdPostSRQRecv:      data(spec[None, None]("post SRQ receive", "SRQ.PostRecv", 0)),
	CmdStatus:           spec[QueryStatus, QueryStatusReply]("status", "ual.Client.Status", 0),
	CmdControl:          spec[Control, ControlReply]("control", "ual.Client.Control", 0),
	CmdOpenServices:     spec[OpenServices, Created]("open services", "services.Open", 0),
	CmdQueryServices:    spec[Services, QueryServicesReply]("query services", "services.Query", 0),
	CmdTakeNotice:       spec[TakeNotice, Notice]("take notice", "services.Take", 0),
	CmdCancel:           spec[Cancel, None]("cancel", "services.Cancel", 0),
	CmdBindPort:         spec[BindPort, BindPortReply]("bind port", "Ports.Bind", 0),
	CmdListenPort:       spec[ListenPort, None]("listen on port", "Binding.Listen", 0),
	CmdRegisterAgent:    spec[RegisterAgent, Created]("register agent", "mads.Register", 0),
	CmdSendMAD:          spec[SendMAD, None]("send MAD", "Agent.Send", 0),
	CmdTakeMAD:          spec[TakeMAD, TakeMADReply]("take MAD", "Agent.Recv", 0),
	CmdCMListen:         spec[CMListen, Created]("listen", "Service.Listen", 0),
	CmdCMAccept:         spec[CMAccept, None]("accept", "Listener.Accept", 0),
	CmdCMConnect:        spec[CMConnect, Created]("connect", "Service.Connect", 0),
	CmdCMReply:          spec[CMReply, None]("reply", "Conn.Accept", 0),
	CmdCMConnCall:       spec[CMConnCall, None]("call connection", "Conn", 0),
	CmdCMLoadAlternate:  spec[CMLoadAlternate, None]("load alternate path", "Conn.LoadAlternate", 0),
	CmdCMConn:           spec[CMConn, CMConnReply]("query connection", "Conn.Request", 0),
	CmdCMQPAttr:         spec[CMQPAttr, CMQPAttrReply]("query QP attributes", "Conn.QPAttr", 0),
	CmdCMLookup:         spec[CMLookup, Created]("look up", "Service.Lookup", 0),
	CmdCMAnswerLookup:   spec[CMAnswerLookup, None]("answer lookup", "LookupRequest.Accept", 0),
	CmdServeCopies:      spec[ServeCopies, None]("serve copies", "PD.RegisterMR", 0),
	CmdPoll:             data(spec[None, None]("poll", "CQ.Poll", 0)),
}

func spec[Q, R any](name, verb string, files int) Spec {
	return Spec{Name: name, Verb: verb, Request: reflect.TypeFor[Q](), Reply: reflect.TypeFor[R](), MaxFiles: files}
}

func data(s Spec) Spec { s.Data = true; return s }

// IsValid reports whether c is the number of a command.
func (c Command) IsValid() bool { return c > 0 && c < NumCommands }

// String returns the name of the command.
func (c Command) String() string {
	if c.IsValid() {
		return Commands[c].Name
	}
	return "command " + strconv.Itoa(int(c))
}

// Verb returns the verb of package ci that the command stands for.
func (c Command) Verb() string {
	if c.IsValid() {
		return Commands[c].Verb
	}
	return "kproxy"
}
