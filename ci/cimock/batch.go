package cimock

//go:generate -command mockgen go tool mockgen -write_package_comment=false -package=cimock
//go:generate mockgen -destination=mocks_batch.go ciddk/ci BatchMemory,Copier
//go:generate mockgen -destination=mocks_persist.go -mock_names PersistentMemory=MockPersist ciddk/ci PersistentMemory
