package ibv

// mutexSize is the size of pthread_mutex_t.
const mutexSize = 40
