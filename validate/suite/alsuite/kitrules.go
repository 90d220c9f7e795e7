package alsuite

import "ciddk/validate/req"

// kitRules are rules of the kit's own code, which no driver can break. The tests of its packages check them; the table
// of moved cases (validate/suite/moved.txt) names these tests.
var kitRules = area()

var _ = []*req.Requirement{
	kitRules.Must("CI-Begin-01", "CI access layer", "accesslayer, AL.Register",
		"Register returns the error of a driver that cannot be opened or queried, and rejects one of another major "+
			"version and attributes that contradict each other. Then the CA is closed, the GUID is free, and no "+
			"client is notified."),
	kitRules.Must("CI-Begin-02", "CI access layer", "accesslayer, AL.Register",
		"Register sets IsClientReregistrationSupported of InfiniBand ports that do not have it, and of no others. A "+
			"driver that cannot set it is registered all the same."),
	kitRules.Must("CI-Begin-03", "CI access layer", "accesslayer, AL.Register, AL.Deregister",
		"If the driver refuses to close an adapter whose registration has failed, the GUID stays reserved until "+
			"Deregister has closed it."),
	kitRules.Must("CI-Change-01", "CI access layer", "accesslayer, PortEvent",
		"Each change of a port has its events: the states that it passed, and what changed in its tables. Events of "+
			"going down come first, and those of coming up last. Tables are reported only from Armed on."),
	kitRules.Must("CI-Change-02", "CI access layer",
		"accesslayer, Adapter.FindPKey, FindGID, AL.AdapterByPort",
		"A partition is found by the low 15 bits of its P_Key, and the entry of a full member is preferred. A GID is "+
			"found at the preferred port, and in the entry of the newer packet format. A port is found by its GUID."),
	kitRules.Must("CI-Change-03", "CI access layer", "accesslayer, PnPConfig, Client.RegisterPnP",
		"A client whose Add fails gets no further callbacks for that adapter, and others are not affected. A "+
			"registration that ends, also in its own callback, gets Remove for each adapter that it has accepted, and "+
			"nothing more."),
	kitRules.Must("CI-Create-01", "CI access layer", "accesslayer, PD.NewCQ, NewQP, NewSRQ, RDD.NewEEC",
		"Each event of an object reaches its callbacks, one at a time and in order, with the object, also if the "+
			"driver raises it before the create has returned. If the create fails, no callback is called. Events "+
			"after the begin of a destroy are dropped, and those before it are delivered before its end."),
	kitRules.Must("CI-Create-02", "CI access layer", "accesslayer, CQHandler",
		"Each completion callback of the driver calls both callbacks of the CQ, with the CQ and with the context. It "+
			"does so on the driver's goroutine, and after the create if it comes within it."),
	kitRules.Must("CI-Create-03", "CI access layer", "accesslayer, RDD, EEC, SRQ, MR",
		"An SRQ, a region and a domain are not destroyed while another object uses them, and stay usable. Verbs of a "+
			"domain and of its contexts reach the driver, which destroys the contexts first."),
	kitRules.Must("CI-Pool-06", "CI access layer", "accesslayer, FastRegPool.Map, FastRegMapping.Register",
		"A mapping of a pool for fast registration has the pages that contain the memory, in order, and the offset of "+
			"its first byte. Memory that has too many pages, no pages, or pieces that end inside a page is rejected, "+
			"and leaves the region free."),
	kitRules.Must("CI-Pool-07", "CI access layer", "accesslayer, FastRegPool",
		"Regions of a pool for fast registration are used in the order of their return, each with 256 keys in turn. "+
			"If the driver fails, Map leaves the region free, and Unmap and Drop leave the mapping. A dropped region "+
			"is destroyed before its memory, and replaced when it is needed."),
	kitRules.Must("CI-Pool-04", "CI access layer", "accesslayer, FMRPool",
		"A pool of FMRs calls the verbs of the driver that its description calls for and no others, in every order of "+
			"mappings, returns and flushes, also if verbs of the driver fail. Its FMRs are used in the order of their "+
			"return."),
	kitRules.Must("CI-Pool-05", "CI access layer", "accesslayer, PD.NewFMRPool",
		"If the driver does not create one of the FMRs of a pool, NewFMRPool returns its error and destroys the "+
			"others, also if the driver refuses that at first."),
	kitRules.Must("CI-Notice-01", "CI access layer", "accesslayer, CA, EventHandler, Adapter",
		"Each event of the adapter reaches every open of it and every handler with its own context. If it announces a "+
			"change, the attributes have been queried before."),
	kitRules.Must("CI-Notice-02", "CI access layer",
		"accesslayer, Config.PollInterval, Adapter.Poll",
		"Changes that the driver does not report are found by queries, every PollInterval and after Adapter.Poll. A "+
			"query that fails, or that returns contradictory attributes, changes nothing. A removed adapter is not "+
			"queried."),
	kitRules.Must("CI-Notice-03", "CI access layer",
		"accesslayer, PnPConfig, AL.Deregister, Client.OpenCA",
		"While a callback for PnP blocks, a registration with Sync and Deregister return Timeout. The registration is "+
			"then void. The removal continues: the adapter cannot be opened or registered before its end."),
	kitRules.Must("CI-Notice-04", "CI access layer", "accesslayer, AL.Close",
		"AL.Close returns the error of a driver that refuses to close its adapter, and closes the others. It can be "+
			"called again."),
	kitRules.Must("CI-Order-01", "CI access layer", "accesslayer, PD, CQ, object.Destroy",
		"Objects are destroyed after everything below them and after their users. Of several objects of a parent, "+
			"windows come first, then the others from the newest to the oldest, and mappings for DMA last; each waits "+
			"for the one before it and everything below it. The QPs of a CQ are destroyed from the newest to the "+
			"oldest."),
	kitRules.Must("CI-Order-02", "CI access layer", "accesslayer, MR.Modify",
		"A region that is moved to another PD is an object of that PD. If the driver refuses, it stays where it was. "+
			"If the other PD is destroyed meanwhile, the region is destroyed, too. A PD that is not of the same "+
			"access layer and adapter is rejected."),
	kitRules.Must("CI-Order-03", "CI access layer", "accesslayer, PD.NewQP, NewSMR",
		"Objects that a create names are of the same access layer and adapter, or lead to such: otherwise the create "+
			"is rejected with the status of the object, and does not reach the driver."),
	kitRules.Must("CI-TimeWait-01", "IBTA 12.9.8.4", "accesslayer, QP.TimeWait",
		"During the quarantine of its number, a connected QP can be moved to Error, Reset and Init only. The driver "+
			"gets the rest of the time when the QP is destroyed."),
	kitRules.Must("CI-InitDatagram-01", "CI access layer", "accesslayer, QP.InitDatagram",
		"A QP for datagrams is taken to RTS with its port, Q_Key and partition. If a step fails, its error is "+
			"returned and the QP is in Reset. A QP that needs a connection is rejected."),
	kitRules.Must("CI-Refuse-01", "CI access layer", "accesslayer, Config.DestroyRetries, OnDestroyError",
		"A destroy that the driver refuses is repeated as often as DestroyRetries, unless the driver does not know "+
			"the object. Then the object is given up, and the program, OnDestroyError and later calls get the error. "+
			"A region in use stays usable instead."),
	kitRules.Must("CI-Refuse-02", "CI access layer", "accesslayer, AL.Deregister",
		"An adapter whose driver refuses to close it stays registered, and Deregister returns the error. Another "+
			"Deregister closes it, and then it can be registered again."),
	kitRules.Must("CI-Refuse-03", "CI access layer", "accesslayer, Config.DrainTimeout",
		"A destroy that waits for a callback for DrainTimeout returns Timeout. It continues, and ends when the "+
			"callback does."),
	kitRules.Must("CI-Setting-01", "CI access layer", "accesslayer, Config",
		"The adapter is queried every PollInterval, a destroy that was refused is repeated DestroyRetries times, "+
			"first after DestroyBackoff and then after twice the time, and blocking calls end after DrainTimeout. The "+
			"defaults are one second, 5, 10 ms and 30 seconds. All times are those of Config.Clock."),
	kitRules.Must("CI-Setting-02", "CI access layer", "accesslayer, ClientConfig",
		"For a strict client, Destroy of an object with children or users fails with ResourceBusy, a create below a "+
			"destroyed object has the status of that object, and an adapter is opened once. DestroyAsync and Close "+
			"destroy trees all the same. A role is free again when Open fails, and when its client has been closed."),
	kitRules.Must("CI-Setting-03", "CI access layer", "accesslayer, TooDeep, PD.NewSRQ",
		"TooDeep is true of errors that fewer entries may cure, and of no others. An SRQ of no entries, or of more "+
			"than the adapter supports, is rejected."),
	kitRules.Must("CI-Setting-04", "CI access layer", "accesslayer, Adapter.OnUndelivered",
		"Adapter.OnUndelivered passes on the reports of the adapter until it is stopped, and returns false for an "+
			"adapter without reports."),
	kitRules.Must("CI-Verb-01", "CI access layer", "accesslayer",
		"Each verb of an object calls the driver's verb once and returns its error. A create that fails returns no "+
			"object. A verb of a destroyed object does not reach the driver and returns ErrClosed with the status of "+
			"the object, and a create below it InvalidState."),
	kitRules.Must("CI-Verb-02", "CI access layer", "accesslayer, object.Destroy",
		"If the driver reports a region, a window, an FMR, a DMA mapping or an address vector busy, Destroy returns "+
			"ResourceBusy and the object stays. Every other destroy that the driver refuses is repeated."),
	kitRules.Must("CI-Pump-07", "CI access layer", "accesslayer, CQ.Wait, Poller.Next",
		"A wait returns the driver's error of each of its polls and of Notify, and the completions of each. A "+
			"callback without a completion arms the CQ again. After the destruction of the CQ has begun, ErrClosed "+
			"replaces the error of the driver."),
	kitRules.Must("CI-Pump-08", "CI access layer", "accesslayer, PumpConfig, Pump.CatchUp",
		"A pump whose poll fails stops, and calls OnStop once with the driver's error, unless it is being destroyed. "+
			"A pump polls for Batch completions, 64 by default. CatchUp does not take one empty poll for an empty CQ, "+
			"and calls its function after 4096 completions if the CQ does not become empty."),
}
