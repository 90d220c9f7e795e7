/*
 * Sends messages of many sizes around a ring of ranks, from two threads where the library permits it, and checks every
 * byte. Then it reduces, and writes, reads and adds to memory of other ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void check(int is_right, const char *what)
{
	if (is_right)
		return;
	printf("rank %d: wrong %s\n", rank, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static char byte(int of, int size, int i, int tag) { return (char)(of * 31 + size * 7 + i + tag * 3); }

static void *ring(void *number)
{
	int tag = *(int *)number, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	for (int size = 1; size <= 1 << 20; size *= 4) {
		char *out = malloc(size), *in = malloc(size);
		for (int i = 0; i < size; i++)
			out[i] = byte(rank, size, i, tag);
		MPI_Sendrecv(out, size, MPI_BYTE, right, tag, in, size, MPI_BYTE, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < size; i++)
			check(in[i] == byte(left, size, i, tag), "message");
		free(out);
		free(in);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int level, tags[] = {1, 2};
	pthread_t other;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (level == MPI_THREAD_MULTIPLE)
		pthread_create(&other, NULL, ring, &tags[1]);
	ring(&tags[0]);
	if (level == MPI_THREAD_MULTIPLE)
		pthread_join(other, NULL);

	long mine = rank + 1, sum;
	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	check(sum == ranks * (ranks + 1) / 2, "sum");

	long *shared, read = 0; /* one place for each rank, and one that all add to */
	MPI_Win window;
	MPI_Win_allocate((ranks + 1) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
	for (int i = 0; i <= ranks; i++)
		shared[i] = 0;
	MPI_Win_fence(0, window);
	for (int i = 0; i < ranks; i++) {
		MPI_Put(&mine, 1, MPI_LONG, i, rank, 1, MPI_LONG, window);
		MPI_Accumulate(&mine, 1, MPI_LONG, i, ranks, 1, MPI_LONG, MPI_SUM, window);
	}
	MPI_Win_fence(0, window);
	for (int i = 0; i < ranks; i++)
		check(shared[i] == i + 1, "put");
	check(shared[ranks] == sum, "accumulate");
	MPI_Get(&read, 1, MPI_LONG, (rank + 1) % ranks, rank, 1, MPI_LONG, window);
	MPI_Win_fence(0, window);
	check(read == mine, "get");
	MPI_Win_free(&window);
	if (rank == 0)
		printf("%d ranks: success\n", ranks);
	MPI_Finalize();
	return 0;
}
