package faults

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// One type for each kind of object: a verb asks the injector first, and goes on to the driver if it may.

type hca struct {
	ciwrap.HCA
	in *Injector
}

func (o *hca) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	if err := o.in.strike(hcaOpenCA); err != nil {
		return nil, err
	}
	return o.HCA.OpenCA(guid, onEvent, arg)
}

type ca struct {
	ciwrap.CA
	in *Injector
}

func (o *ca) Query() (*ci.CAAttr, error) {
	if err := o.in.strike(caQuery); err != nil {
		return nil, err
	}
	return o.CA.Query()
}

func (o *ca) Modify(port uint8, set ci.PortField, attr ci.PortModify) error {
	if err := o.in.strike(caModify); err != nil {
		return err
	}
	return o.CA.Modify(port, set, attr)
}

func (o *ca) Destroy() error {
	if err := o.in.strike(caDestroy); err != nil {
		return err
	}
	return o.CA.Destroy()
}

func (o *ca) AllocatePD(typ ci.PDType) (ci.PD, error) {
	if err := o.in.strike(caAllocatePD); err != nil {
		return nil, err
	}
	return o.CA.AllocatePD(typ)
}

func (o *ca) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	if err := o.in.strike(caOpenUser); err != nil {
		return nil, err
	}
	return o.CA.OpenUser(p, ub)
}

func (o *ca) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	if err := o.in.strike(caOnEvent); err != nil {
		return nil, err
	}
	return o.CA.OnEvent(fn, arg)
}

func (o *ca) MapDMA(mem ci.Memory) (ci.DMA, error) {
	if err := o.in.strike(caMapDMA); err != nil {
		return nil, err
	}
	return o.CA.MapDMA(mem)
}

func (o *ca) LocalMAD(port uint8, src *ci.AVAttr, req, resp *ci.MAD) error {
	if err := o.in.strike(caLocalMAD); err != nil {
		return err
	}
	return o.CA.LocalMAD(port, src, req, resp)
}

func (o *ca) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	if err := o.in.strike(caSLForIP); err != nil {
		return 0, err
	}
	return o.CA.SLForIP(port, ipPort)
}

func (o *ca) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	if err := o.in.strike(caVendorCall); err != nil {
		return err
	}
	return o.CA.VendorCall(op, objects...)
}

type userCA struct {
	ciwrap.UserCA
	in *Injector
}

func (o *userCA) Destroy() error {
	if err := o.in.strike(userDestroy); err != nil {
		return err
	}
	return o.UserCA.Destroy()
}

func (o *userCA) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	if err := o.in.strike(userAllocatePD); err != nil {
		return nil, err
	}
	return o.UserCA.AllocatePD(typ, ub)
}

func (o *userCA) VendorCall(op *ci.VendorOp, ub *ci.UserBuffer, objects ...ci.Object) error {
	if err := o.in.strike(userVendorCall); err != nil {
		return err
	}
	return o.UserCA.VendorCall(op, ub, objects...)
}

type pd struct {
	ciwrap.PD
	in *Injector
}

func (o *pd) Destroy() error {
	if err := o.in.strike(pdDestroy); err != nil {
		return err
	}
	return o.PD.Destroy()
}

func (o *pd) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	if err := o.in.strike(pdCreateAV); err != nil {
		return nil, err
	}
	return o.PD.CreateAV(attr)
}

func (o *pd) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if err := o.in.strike(pdCreateCQ); err != nil {
		return nil, err
	}
	return o.PD.CreateCQ(c)
}

func (o *pd) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	if err := o.in.strike(pdCreateSRQ); err != nil {
		return nil, err
	}
	return o.PD.CreateSRQ(c)
}

func (o *pd) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if err := o.in.strike(pdCreateQP); err != nil {
		return nil, err
	}
	return o.PD.CreateQP(c)
}

func (o *pd) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	if err := o.in.strike(pdCreateSpecialQP); err != nil {
		return nil, err
	}
	return o.PD.CreateSpecialQP(port, c)
}

func (o *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	if err := o.in.strike(pdRegisterMR); err != nil {
		return nil, err
	}
	return o.PD.RegisterMR(c)
}

func (o *pd) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	if err := o.in.strike(pdRegisterPMR); err != nil {
		return nil, err
	}
	return o.PD.RegisterPMR(c)
}

func (o *pd) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	if err := o.in.strike(pdRegisterSMR); err != nil {
		return nil, err
	}
	return o.PD.RegisterSMR(src, iova, access)
}

func (o *pd) AllocFastRegMR(maxPages int) (ci.MR, error) {
	if err := o.in.strike(pdAllocFastRegMR); err != nil {
		return nil, err
	}
	return o.PD.AllocFastRegMR(maxPages)
}

func (o *pd) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	if err := o.in.strike(pdAllocFMR); err != nil {
		return nil, err
	}
	return o.PD.AllocFMR(c)
}

func (o *pd) UnmapFMRs(fmrs []ci.FMR) error {
	if err := o.in.strike(pdUnmapFMRs); err != nil {
		return err
	}
	return o.PD.UnmapFMRs(fmrs)
}

func (o *pd) CreateMW(c ci.MWCreate) (ci.MW, error) {
	if err := o.in.strike(pdCreateMW); err != nil {
		return nil, err
	}
	return o.PD.CreateMW(c)
}

func (o *pd) AllocRDD() (ci.RDD, error) {
	if err := o.in.strike(pdAllocRDD); err != nil {
		return nil, err
	}
	return o.PD.AllocRDD()
}

type av struct {
	ciwrap.AV
	in *Injector
}

func (o *av) Destroy() error {
	if err := o.in.strike(avDestroy); err != nil {
		return err
	}
	return o.AV.Destroy()
}

func (o *av) Query() (ci.AVAttr, ci.PD, error) {
	if err := o.in.strike(avQuery); err != nil {
		return ci.AVAttr{}, nil, err
	}
	return o.AV.Query()
}

func (o *av) Modify(attr ci.AVAttr) error {
	if err := o.in.strike(avModify); err != nil {
		return err
	}
	return o.AV.Modify(attr)
}

type cq struct {
	ciwrap.CQ
	in *Injector
}

func (o *cq) Destroy() error {
	if err := o.in.strike(cqDestroy); err != nil {
		return err
	}
	return o.CQ.Destroy()
}

func (o *cq) Poll(wc []ci.WC) (int, error) {
	if err := o.in.strike(cqPoll); err != nil {
		return 0, err
	}
	return o.CQ.Poll(wc)
}

func (o *cq) Notify(when ci.Notify) error {
	if err := o.in.strike(cqNotify); err != nil {
		return err
	}
	return o.CQ.Notify(when)
}

func (o *cq) NotifyAfter(n int) error {
	if err := o.in.strike(cqNotifyAfter); err != nil {
		return err
	}
	return o.CQ.NotifyAfter(n)
}

func (o *cq) Peek() (int, error) {
	if err := o.in.strike(cqPeek); err != nil {
		return 0, err
	}
	return o.CQ.Peek()
}

func (o *cq) Query() (ci.CQAttr, error) {
	if err := o.in.strike(cqQuery); err != nil {
		return ci.CQAttr{}, err
	}
	return o.CQ.Query()
}

func (o *cq) Resize(r ci.CQResize) (int, error) {
	if err := o.in.strike(cqResize); err != nil {
		return 0, err
	}
	return o.CQ.Resize(r)
}

func (o *cq) Modify(m ci.Moderation) error {
	if err := o.in.strike(cqModify); err != nil {
		return err
	}
	return o.CQ.Modify(m)
}

type srq struct {
	ciwrap.SRQ
	in *Injector
}

func (o *srq) Destroy() error {
	if err := o.in.strike(srqDestroy); err != nil {
		return err
	}
	return o.SRQ.Destroy()
}

func (o *srq) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := o.in.strikes(srqPostRecv, len(wrs))
	if err == nil {
		return o.SRQ.PostRecv(wrs)
	}
	if done, first := o.SRQ.PostRecv(wrs[:n]); first != nil {
		return done, first
	}
	return n, err
}

func (o *srq) Query() (ci.SRQAttr, error) {
	if err := o.in.strike(srqQuery); err != nil {
		return ci.SRQAttr{}, err
	}
	return o.SRQ.Query()
}

func (o *srq) Modify(set ci.SRQField, attr ci.SRQAttr) error {
	if err := o.in.strike(srqModify); err != nil {
		return err
	}
	return o.SRQ.Modify(set, attr)
}

type qp struct {
	ciwrap.QP
	in *Injector
}

func (o *qp) Destroy() error {
	if err := o.in.strike(qpDestroy); err != nil {
		return err
	}
	return o.QP.Destroy()
}

func (o *qp) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := o.in.strikes(qpPostSend, len(wrs))
	if err == nil {
		return o.QP.PostSend(wrs)
	}
	if done, first := o.QP.PostSend(wrs[:n]); first != nil {
		return done, first
	}
	return n, err
}

func (o *qp) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := o.in.strikes(qpPostRecv, len(wrs))
	if err == nil {
		return o.QP.PostRecv(wrs)
	}
	if done, first := o.QP.PostRecv(wrs[:n]); first != nil {
		return done, first
	}
	return n, err
}

func (o *qp) Query() (ci.QPAttr, error) {
	if err := o.in.strike(qpQuery); err != nil {
		return ci.QPAttr{}, err
	}
	return o.QP.Query()
}

func (o *qp) Modify(set ci.QPField, attr ci.QPAttr) error {
	if err := o.in.strike(qpModify); err != nil {
		return err
	}
	return o.QP.Modify(set, attr)
}

func (o *qp) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	if err := o.in.strike(qpBindMW); err != nil {
		return 0, err
	}
	return o.QP.BindMW(id, flags, b)
}

func (o *qp) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if err := o.in.strike(qpAttachMcast); err != nil {
		return nil, err
	}
	return o.QP.AttachMcast(c)
}

type mcast struct {
	ciwrap.Mcast
	in *Injector
}

func (o *mcast) Destroy() error {
	if err := o.in.strike(mcastDestroy); err != nil {
		return err
	}
	return o.Mcast.Destroy()
}

type mr struct {
	ciwrap.MR
	in *Injector
}

func (o *mr) Destroy() error {
	if err := o.in.strike(mrDestroy); err != nil {
		return err
	}
	return o.MR.Destroy()
}

func (o *mr) Query() (ci.MRAttr, error) {
	if err := o.in.strike(mrQuery); err != nil {
		return ci.MRAttr{}, err
	}
	return o.MR.Query()
}

func (o *mr) Modify(set ci.MRField, p ci.PD, c ci.MRCreate) error {
	if err := o.in.strike(mrModify); err != nil {
		return err
	}
	return o.MR.Modify(set, p, c)
}

func (o *mr) ModifyPMR(set ci.MRField, p ci.PD, c ci.PMRCreate) error {
	if err := o.in.strike(mrModifyPMR); err != nil {
		return err
	}
	return o.MR.ModifyPMR(set, p, c)
}

type fmr struct {
	ciwrap.FMR
	in *Injector
}

func (o *fmr) Destroy() error {
	if err := o.in.strike(fmrDestroy); err != nil {
		return err
	}
	return o.FMR.Destroy()
}

func (o *fmr) Map(pages []uint64, iova uint64) (ci.Region, error) {
	if err := o.in.strike(fmrMap); err != nil {
		return ci.Region{}, err
	}
	return o.FMR.Map(pages, iova)
}

type mw struct {
	ciwrap.MW
	in *Injector
}

func (o *mw) Destroy() error {
	if err := o.in.strike(mwDestroy); err != nil {
		return err
	}
	return o.MW.Destroy()
}

func (o *mw) Query() (ci.MWAttr, error) {
	if err := o.in.strike(mwQuery); err != nil {
		return ci.MWAttr{}, err
	}
	return o.MW.Query()
}

type rdd struct {
	ciwrap.RDD
	in *Injector
}

func (o *rdd) Destroy() error {
	if err := o.in.strike(rddDestroy); err != nil {
		return err
	}
	return o.RDD.Destroy()
}

func (o *rdd) CreateEEC(c ci.EECCreate) (ci.EEC, error) {
	if err := o.in.strike(rddCreateEEC); err != nil {
		return nil, err
	}
	return o.RDD.CreateEEC(c)
}

type eec struct {
	ciwrap.EEC
	in *Injector
}

func (o *eec) Destroy() error {
	if err := o.in.strike(eecDestroy); err != nil {
		return err
	}
	return o.EEC.Destroy()
}

func (o *eec) Query() (ci.QPAttr, error) {
	if err := o.in.strike(eecQuery); err != nil {
		return ci.QPAttr{}, err
	}
	return o.EEC.Query()
}

func (o *eec) Modify(set ci.QPField, attr ci.QPAttr) error {
	if err := o.in.strike(eecModify); err != nil {
		return err
	}
	return o.EEC.Modify(set, attr)
}

type dma struct {
	ciwrap.DMA
	in *Injector
}

func (o *dma) Destroy() error {
	if err := o.in.strike(dmaDestroy); err != nil {
		return err
	}
	return o.DMA.Destroy()
}

type handler struct {
	ciwrap.Object
	in *Injector
}

func (o *handler) Destroy() error {
	if err := o.in.strike(handlerDestroy); err != nil {
		return err
	}
	return o.Object.Destroy()
}
