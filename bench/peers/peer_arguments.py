"""What the command lines of the peers have in common."""
import torch
from transformers.utils import logging


def parse(parser):
    """The arguments, with --threads, which is obeyed at once. From here on transformers prints no progress and no warnings."""
    parser.add_argument("--threads", type=int, default=0, help="of the CPU; 0: what PyTorch chooses")
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if args.threads:
        torch.set_num_threads(args.threads)
    return args
