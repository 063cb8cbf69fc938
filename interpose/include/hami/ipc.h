/* Memory of other processes that this one has opened by CUDA's interprocess calls (cuIpc…). */
#ifndef HAMI_IPC_H
#define HAMI_IPC_H

/* A context is gone, and what was opened there. */
void hami_ipc_context_gone(unsigned context);

void hami_ipc_after_fork(void);

#endif
