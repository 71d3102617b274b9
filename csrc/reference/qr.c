#include "reference.h"

void smm_reference_qr(const smm_call *call) { (void)call; }
