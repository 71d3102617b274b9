#include "reference.h"

void smm_reference_inv(const smm_call *call) { (void)call; }
