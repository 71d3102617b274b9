#include "reference.h"

void smm_reference_lu(const smm_call *call) { (void)call; }
