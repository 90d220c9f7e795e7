package faults

import "slices"

// verb indexes the tables of an Injector, so that the data path looks nothing up.
type verb int

const (
	hcaOpenCA verb = iota
	caQuery
	caModify
	caDestroy
	caAllocatePD
	caOpenUser
	caOnEvent
	caMapDMA
	caLocalMAD
	caSLForIP
	caVendorCall
	userDestroy
	userAllocatePD
	userVendorCall
	pdDestroy
	pdCreateAV
	pdCreateCQ
	pdCreateSRQ
	pdCreateQP
	pdCreateSpecialQP
	pdRegisterMR
	pdRegisterPMR
	pdRegisterSMR
	pdAllocFastRegMR
	pdAllocFMR
	pdUnmapFMRs
	pdCreateMW
	pdAllocRDD
	avDestroy
	avQuery
	avModify
	cqDestroy
	cqPoll
	cqNotify
	cqNotifyAfter
	cqPeek
	cqQuery
	cqResize
	cqModify
	srqDestroy
	srqPostRecv
	srqQuery
	srqModify
	qpDestroy
	qpPostSend
	qpPostRecv
	qpQuery
	qpModify
	qpBindMW
	qpAttachMcast
	mcastDestroy
	mrDestroy
	mrQuery
	mrModify
	mrModifyPMR
	fmrDestroy
	fmrMap
	mwDestroy
	mwQuery
	rddDestroy
	rddCreateEEC
	eecDestroy
	eecQuery
	eecModify
	dmaDestroy
	handlerDestroy
	verbCount
)

var verbNames = [verbCount]string{"HCA.OpenCA", "CA.Query", "CA.Modify", "CA.Destroy", "CA.AllocatePD",
	"CA.OpenUser", "CA.OnEvent",
	"CA.MapDMA", "CA.LocalMAD", "CA.SLForIP", "CA.VendorCall", "UserCA.Destroy", "UserCA.AllocatePD",
	"UserCA.VendorCall", "PD.Destroy", "PD.CreateAV",
	"PD.CreateCQ", "PD.CreateSRQ", "PD.CreateQP", "PD.CreateSpecialQP", "PD.RegisterMR", "PD.RegisterPMR",
	"PD.RegisterSMR",
	"PD.AllocFastRegMR", "PD.AllocFMR", "PD.UnmapFMRs", "PD.CreateMW", "PD.AllocRDD", "AV.Destroy",
	"AV.Query", "AV.Modify",
	"CQ.Destroy", "CQ.Poll", "CQ.Notify", "CQ.NotifyAfter", "CQ.Peek", "CQ.Query", "CQ.Resize",
	"CQ.Modify", "SRQ.Destroy",
	"SRQ.PostRecv", "SRQ.Query", "SRQ.Modify", "QP.Destroy", "QP.PostSend", "QP.PostRecv", "QP.Query",
	"QP.Modify", "QP.BindMW",
	"QP.AttachMcast", "Mcast.Destroy", "MR.Destroy", "MR.Query", "MR.Modify", "MR.ModifyPMR", "FMR.Destroy",
	"FMR.Map", "MW.Destroy",
	"MW.Query", "RDD.Destroy", "RDD.CreateEEC", "EEC.Destroy", "EEC.Query", "EEC.Modify", "DMA.Destroy",
	"EventHandler.Destroy"}

// Verbs returns the names that a Rule may use: Interface.Method of package ci, and EventHandler.Destroy for the result
// of CA.OnEvent.
func Verbs() []string { return slices.Clone(verbNames[:]) }

func verbNamed(name string) (verb, bool) {
	i := slices.Index(verbNames[:], name)
	return verb(i), i >= 0
}
