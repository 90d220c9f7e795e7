package cisuite

import "ciddk/validate"

// areaFuncs are the areas in the order of reports. One line each, so that new areas do not collide.
var areaFuncs = []func() validate.Suite{
	openArea,
	queryArea,
	pdArea,
	cqArea,
	cqNotifyArea,
	qpCreateArea,
	qpStateArea,
	claimsArea,
	teardownArea,
	callbacksArea,
	caModifyArea,
	madArea,
	specialArea,
	mcastArea,
	apmArea,
	rcSendArea,
	rcPostArea,
	mrArea,
	mrModifyArea,
	mrPhysicalArea,
	mrFMRArea,
	mrFastArea,
	mwArea,
	mw2Area,
	rdmaArea,
	atomicArea,
	ucArea,
	udArea,
	opcodeArea,
	postStateArea,
	faultArea,
	impairArea,
}
